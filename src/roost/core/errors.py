"""Every failure a person or a peer can see, typed by who must act.

The docstring of an error is the text the person reads; ``code`` is what machines read (stable, part of the wire
protocol for the ``Refused`` family); ``exit_code`` is the command line's, ``http_status`` the API's.
"""

from __future__ import annotations

import inspect
from typing import ClassVar


class RoostError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        text = inspect.cleandoc(self.__doc__ or "").replace("\n", " ")
        return f"{text} ({self.detail})" if self.detail else text


# --- what a person asked for cannot be done -------------------------------------------------------------------------


class Usage(RoostError):
    """The command was not understood."""

    code = "usage"
    exit_code = 2
    http_status = 400


class NotFound(RoostError):
    """There is nothing by that name or id here."""

    code = "not_found"
    exit_code = 3
    http_status = 404


class NothingUsable(RoostError):
    """Nothing in the file could be read as a transcript."""

    code = "nothing_usable"
    exit_code = 3
    http_status = 422


class Denied(RoostError):
    """This is not allowed."""

    code = "denied"
    exit_code = 4
    http_status = 403


class NotAWriter(Denied):
    """This key may not write in the session. Ask an admin: roost access grant SESSION KEY --role write."""

    code = "not_a_writer"


class NotAnAdmin(Denied):
    """This key is no admin of the session. Ask an admin to do it, or to grant you the role."""

    code = "not_an_admin"


class NotAReader(Denied):
    """There is no such document here, or you may not read it."""

    code = "not_a_reader"


class InviteExpired(Denied):
    """The invite in this ticket has expired. Ask for a new ticket."""

    code = "invite_expired"


class InviteUsedUp(Denied):
    """The invite in this ticket has been used as often as it may be. Ask for a new ticket."""

    code = "invite_used_up"


class InviteRevoked(Denied):
    """The invite in this ticket was taken back. Ask for a new ticket."""

    code = "invite_revoked"


class InviteUnknown(Denied):
    """The invite in this ticket is not known to that peer. Check the ticket, or ask for a new one."""

    code = "invite_unknown"


class ForbiddenAddress(Denied):
    """The address is of a kind that roost never dials (link-local, cloud metadata, multicast or unspecified)."""

    code = "forbidden_address"


class Conflict(RoostError):
    """That is in use already."""

    code = "conflict"
    exit_code = 5
    http_status = 409


class NameTaken(Conflict):
    """Another session has this name."""

    code = "name_taken"


class HomeBusy(Conflict):
    """Another roost process uses this data directory. Wait for it, or stop it."""

    code = "home_busy"


class Pending(RoostError):
    """Not done yet: the request waits for the other side, and goes on by itself."""

    code = "pending"
    exit_code = 5
    http_status = 202


class Unreachable(RoostError):
    """The peer cannot be reached."""

    code = "unreachable"
    exit_code = 6
    http_status = 502


class NotRunning(Unreachable):
    """No peer runs on this data directory. Start it: roost up."""

    code = "not_running"


class Unverified(RoostError):
    """A stored operation does not match its hash or signature."""

    code = "unverified"
    exit_code = 7
    http_status = 500


# --- the disk -------------------------------------------------------------------------------------------------------


class StoreFailed(RoostError):
    """The disk did not take the write: nothing was stored, what is stored stays readable."""

    code = "store_failed"
    http_status = 507


class StateFailed(RoostError):
    """The merge engine failed. Nothing stored is lost; the state is made again from the operations."""

    code = "state_failed"


class StoreTooNew(RoostError):
    """The data directory was written by a newer roost. It was not touched: upgrade roost."""

    code = "store_too_new"


class KeyUnsafe(RoostError):
    """The key file can be read by others. Make it private: chmod 600 on the file, 700 on the directory."""

    code = "key_unsafe"
    exit_code = 4


# --- what a peer sent is refused ------------------------------------------------------------------------------------


class Refused(RoostError):
    """What was sent is refused."""

    code = "refused"
    exit_code = 4
    http_status = 400


class TooLarge(Refused):
    """It is larger than the format allows."""

    code = "too_large"
    http_status = 413


class Malformed(Refused):
    """It does not have the form that the format prescribes."""

    code = "malformed"


class NotCanonical(Refused):
    """It is not in canonical form: decoded and encoded again it gives other bytes."""

    code = "not_canonical"


class BadVersion(Refused):
    """Its format version is not known here. Upgrade roost."""

    code = "bad_version"


class BadKey(Refused):
    """A public key in it is not a canonical Ed25519 key, or of small order."""

    code = "bad_key"


class BadSignature(Refused):
    """The signature does not fit the key and the bytes."""

    code = "bad_signature"
    http_status = 401


class BadBody(Refused):
    """Head or content do not fit the hash or the size in the header."""

    code = "bad_body"


class BadHead(Refused):
    """The head does not fit the schema of the operation's kind."""

    code = "bad_head"


class BadChain(Refused):
    """The sequence number and the backlink do not continue a log of this author."""

    code = "bad_chain"


class BadDeps(Refused):
    """The dependencies are not as the format prescribes."""

    code = "bad_deps"


class BadProof(Refused):
    """The proof is neither the genesis, nor the predecessor's proof, nor one of the dependencies."""

    code = "bad_proof"


class BadTime(Refused):
    """The time is not later than that of every parent."""

    code = "bad_time"


class WrongDocument(Refused):
    """It belongs to another document."""

    code = "wrong_document"


class BadTicket(Refused):
    """This is not a valid ticket."""

    code = "bad_ticket"
    exit_code = 2


class BadRequest(Refused):
    """The request is not signed as the protocol demands."""

    code = "bad_request"
    http_status = 401


class Replayed(BadRequest):
    """The request was seen before."""

    code = "replayed"


class ClockOff(BadRequest):
    """The request's time is too far from this peer's clock."""

    code = "clock_off"


class Busy(Refused):
    """The peer takes no more for the moment. Try again later."""

    code = "busy"
    http_status = 429
