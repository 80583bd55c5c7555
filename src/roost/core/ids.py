"""Names for the byte strings that identify things, so that one cannot be passed for another."""

from typing import NewType

DocumentId = NewType("DocumentId", bytes)  # 32 bytes: id of the document's genesis operation
OperationId = NewType("OperationId", bytes)  # 32 bytes: SHA-256 of the header
PeerKey = NewType("PeerKey", bytes)  # 32 bytes: Ed25519 public key, canonical, not of small order
LogId = NewType("LogId", bytes)  # 8 random bytes: one append-only chain of one author in one document

ID_BYTES = 32
LOG_BYTES = 8
SIGNATURE_BYTES = 64
