"""What each command prints under --json, for docs/cli.md; tests hold the rows of real peers against it.

A command may print more fields than these, never fewer.
"""

from __future__ import annotations

ENTRY = '{"id","type","parent","branch","sender","author","at","content",...} per entry'

ROWS: dict[str, str] = {
    "init": '{"peer","name","home"}',
    "up": '{"event":"ready","peer","url"} once it serves',
    "new": '{"session","name"}',
    "send": '{"session","entry"}; with --jsonl per line, as it is acknowledged',
    "log": ENTRY,
    "follow": ENTRY,
    "sessions": '{"session","name","kind","mode","entries","role","updated","origin"} per session',
    "name": '{"session","name"}',
    "set": '{"session","path","value"}',
    "import": '{"path","format","session","entries","skipped","existing","warnings":[{"offset","reason"}]} per file',
    "share": '{"ticket","id","role","expires"}',
    "sync": '{"session","status":"synced"|"pending","entries"}',
    "tickets": '{"id","session","name","role","invite","state","expires","uses","uses_max"} per ticket',
    "unshare": '{"revoked":[...],"members":[...]}',
    "access list": '{"key","role","by","rank","revoked"} per grant',
    "access grant": '{"operation","key","role"}',
    "access revoke": '{"operation","key","voided","homes":[...],"invites_closed":[...]}',
    "access admit": '{"operation","admitted":[...]}',
    "status": '{"peer","name","running","url","sessions","links":[{"peer","url","state","since"}]}; of a session '
    '{"session","name","kind","mode","role","entries","operations","links","last_sync"}',
    "state": '{"meta":{},"agents":{},"tags":{},"notes","automerge_heads":[]}',
    "heads": '{"session","heads":[],"operations","void","parked"}',
    "routes": '{"method","path","auth":"none"|"token"|"peer"} per route',
    "verify": '{"session","operations","ok","first_bad"}',
}
