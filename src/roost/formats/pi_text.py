"""What a line of a pi session file is called in roost, who speaks in it, and what a person reads of it."""

from __future__ import annotations

import json

from roost.formats.lines import JsonValue

TOOL_CALL_CHARACTERS_MAX = 200  # a call is one short line in the text; all of it is in the data

_TYPES = {
    "message": "message",
    "model_change": "model_change",
    "thinking_level_change": "thinking_level_change",
    "active_tools_change": "active_tools_change",
    "compaction": "summary",
    "branch_summary": "summary",
    "custom": "custom",
    "custom_message": "custom_message",
    "label": "label",
    "session_info": "session_info",
    "usage": "usage",
    "context_edit": "context_edit",
    "leaf": "select",
}
_ROLE_TYPES = {
    "toolResult": "tool_result",
    "tool": "tool_result",
    "custom": "custom_message",
    "hookMessage": "custom_message",  # what v2 called custom
}

Record = dict[str, JsonValue]


def entry_type(fields: Record) -> str:
    """The entry type in roost; "custom" for a type that pi does not have, or has in a version later than these."""
    type_ = _text(fields.get("type")) or _text(fields.get("kind"))
    if type_ == "message":
        return _ROLE_TYPES.get(_text(_message(fields).get("role")), "message")
    return _TYPES.get(type_, "custom")


def sender(fields: Record) -> str:
    """A label: user, assistant:<model>, the tool's or the extension's name; pi itself for what pi recorded."""
    match fields.get("type"):
        case "message":
            return _message_sender(_message(fields))
        case "custom" | "custom_message":
            return _text(fields.get("customType")) or "custom"
        case _:
            return "pi"


def _message_sender(message: Record) -> str:
    match _text(message.get("role")):
        case "assistant":
            model = _text(message.get("model"))
            return f"assistant:{model}" if model else "assistant"
        case "toolResult" | "tool":
            return _text(message.get("toolName")) or "tool"
        case "custom" | "hookMessage":
            return _text(message.get("customType")) or "custom"
        case "bashExecution":
            return "user"  # a command that the person ran, not the model
        case role:
            return role or "unknown"


def readable(fields: Record) -> str:
    """The text of a line; empty if it has none for people."""
    match fields.get("type"):
        case "message":
            return _message_text(_message(fields))
        case "custom_message":
            return _blocks_text(fields.get("content"))
        case "model_change":
            return "/".join(filter(None, (_text(fields.get("provider")), _text(fields.get("modelId")))))
        case "thinking_level_change":
            return _text(fields.get("thinkingLevel"))
        case "active_tools_change":
            names = fields.get("activeToolNames")
            return ", ".join(_text(name) for name in names) if isinstance(names, list) else ""
        case "compaction" | "branch_summary":
            return _text(fields.get("summary"))
        case "label":
            return _text(fields.get("label"))
        case "session_info":
            return _text(fields.get("name"))
        case "usage":
            return _text(fields.get("kind"))
        case "context_edit":
            replacement = fields.get("replacement")
            return _blocks_text(replacement.get("content")) if isinstance(replacement, dict) else ""
        case _:
            return ""


def _message_text(message: Record) -> str:
    if message.get("role") == "bashExecution":
        parts = [f"$ {_text(message.get('command'))}", _text(message.get("output"))]
    else:
        parts = [_blocks_text(message.get("content")), _text(message.get("errorMessage"))]
    return "\n".join(filter(None, parts))


def _blocks_text(content: JsonValue) -> str:
    match content:
        case str():
            return content
        case list():
            return "\n".join(filter(None, (_block_text(block) for block in content if isinstance(block, dict))))
        case _:
            return ""


def _block_text(block: Record) -> str:
    match block.get("type"):
        case "text":
            return _text(block.get("text"))
        case "toolCall":
            arguments = json.dumps(block.get("arguments"), ensure_ascii=False, separators=(",", ":"))
            call = f"{_text(block.get('name'))} {arguments}"
            return call if len(call) <= TOOL_CALL_CHARACTERS_MAX else call[: TOOL_CALL_CHARACTERS_MAX - 1] + "…"
        case "image":
            return f"[image {_text(block.get('mimeType'))}]"
        case _:
            return ""  # thinking is in the data


def _message(fields: Record) -> Record:
    message = fields.get("message")
    return message if isinstance(message, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
