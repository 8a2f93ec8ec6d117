"""The server: lists the tools, asks for consent, runs the command in a child process, and passes on its progress."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp_types as types
from anyio.streams.text import TextReceiveStream
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from repro_kit import __version__
from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.commands.intake.issue import is_issue, read_issue
from repro_kit.commands.intake.issue_files import free_path
from repro_kit.commands.mcp import tools
from repro_kit.commands.mcp.consent import (
    ANSWERS_WITH_QUESTIONS,
    Planned,
    check_links,
    check_output,
    inside,
    planned,
    roots_of,
)
from repro_kit.commands.mcp.consent import KEY as ROOTS
from repro_kit.commands.mcp.consent import QUESTION as ROOTS_QUESTION
from repro_kit.commands.mcp.tools import TOOLS, CommandTool, named_tool, schema_of
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.files import read_text, write_atomic
from repro_kit.session.system import sentence_of

_KEY = "consent"
_FORM = {
    "type": "object",
    "properties": {"run": {"type": "boolean", "title": "Run this code with my rights", "default": False}},
    "required": ["run"],
}
_ABOUT = (
    "repro-kit turns a failing torch.compile program into a verified, minimal bug report. Tools that run code ask for "
    "consent first: show the user what would run."
)


def make_server() -> Server[Any]:
    """The server, for any transport."""
    return Server(
        "repro-kit",
        version=__version__,
        instructions=_ABOUT,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
    )


def serve() -> None:
    """Serve on stdin and stdout until the client goes."""

    async def run() -> None:
        server = make_server()
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


async def _list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.inputs,
                output_schema=tool.output,
                annotations=types.ToolAnnotations(read_only_hint=not tool.runs, open_world_hint=tool.runs),
            )
            for tool in TOOLS.values()
        ]
    )


async def _call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    try:
        return await _answer(ctx, params)
    except ReproKitError as error:
        return _text(str(error), is_error=True)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        problem = sentence_of(error, Path.cwd()) or f"This cannot be done: {error}."
        return _text(str(problem), is_error=True)


async def _answer(ctx: Any, params: types.CallToolRequestParams) -> Any:
    tool = named_tool(params.name)
    arguments = _checked(tool, params.arguments or {})
    roots = await roots_of(ctx, params)
    if roots is None:
        return types.InputRequiredResult(input_requests={ROOTS: ROOTS_QUESTION})
    text = arguments.pop("text", None)
    if text is not None:
        arguments["target"] = str(free_path(text, Path.cwd(), "issue", ".md"))
    if "output" in tool.places and not tools.is_inside(Path.cwd(), roots):
        arguments.setdefault("output", str(Path(arguments["target"]).absolute().parent))
    _check_paths(tool, arguments, roots)
    if text is None and tool.takes_text and is_issue(Path(arguments["target"]).absolute()):
        text = read_text(Path(arguments["target"]))
    code = read_issue(text).program(arguments.get("which"), "the text").shown if text is not None else None
    words = tool.words(arguments)
    if tool.runs:
        target = Path(arguments["target"]).absolute()
        plan = planned(words, target, roots, code)
        answer = await _consent(ctx, params, plan)
        if isinstance(answer, types.InputRequiredResult):
            return answer
        if not answer:
            return _text(plan.refusal, is_error=True)
        if text is not None:
            write_atomic(target, text.encode())
        elif planned(words, target, roots).digest != plan.digest:
            return _text(f"Nothing was run: {target} has changed since the question.", is_error=True)
    return await _run(ctx, tool, words)


def _checked(tool: CommandTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments. Raises UsageError."""
    try:
        jsonschema.validate(dict(arguments), tool.inputs)
    except jsonschema.ValidationError as error:
        raise UsageError(f"The arguments of {tool.name} do not fit: {error.message}.") from error
    words = [word for value in arguments.values() for word in (value if isinstance(value, list) else [value])]
    if any(isinstance(word, str) and not _is_text(word) for word in words):
        raise UsageError(f"An argument of {tool.name} has a NUL character, or is not valid UTF-8.")
    if tool.takes_text and ("text" in arguments) == ("target" in arguments):
        raise UsageError(f"Give {tool.name} a target, or the text of an issue.")
    return dict(arguments)


def _is_text(word: str) -> bool:
    try:
        return "\0" not in word and bool(word.encode() or True)
    except UnicodeEncodeError:
        return False


def _check_paths(tool: CommandTool, arguments: Mapping[str, Any], roots: Sequence[Path]) -> None:
    """Raise UsageError if a tool would read or write outside of the client's roots."""
    for name in tool.places:
        if name not in arguments and name not in tool.usual_places:
            continue
        path = inside(Path(arguments.get(name, name)), roots)
        if name == "target" and not tool.runs and path.is_dir():  # what runs is looked at when it is shown
            check_links(path, roots)
    if "output" in tool.places:
        check_output(arguments.get("output"), Path(arguments["target"]), roots)


async def _consent(ctx: Any, params: types.CallToolRequestParams, plan: Planned) -> Any:
    """Whether the user agrees. A client that can ask its user must; else the argument must name this very run."""
    if not _can_ask(ctx):
        return bool((params.arguments or {}).get(_KEY) == plan.digest)
    if ctx.protocol_version < ANSWERS_WITH_QUESTIONS:
        return _agrees(await ctx.session.elicit_form(plan.question, _FORM, ctx.request_id))
    answer = (params.input_responses or {}).get(_KEY)
    if answer is not None and params.request_state == plan.digest:  # the answer is about this very run
        return _agrees(answer)
    form = types.ElicitRequestFormParams(message=plan.question, requested_schema=_FORM)
    asked: dict[str, Any] = {_KEY: types.ElicitRequest(params=form)}
    if params.input_responses and ROOTS in params.input_responses:
        asked[ROOTS] = ROOTS_QUESTION  # each call of the client brings the answers to the last questions alone
    return types.InputRequiredResult(input_requests=asked, request_state=plan.digest)


def _can_ask(ctx: Any) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _agrees(answer: Any) -> bool:
    return (
        isinstance(answer, types.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get("run") is True
    )


async def _run(ctx: Any, tool: CommandTool, words: Sequence[str]) -> types.CallToolResult:
    """Run a command; what it prints for people is progress, and its JSON is the result."""
    out, lines = [], []
    command = [sys.executable, "-m", "repro_kit", *words]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stderr is not None

        async def read_result(stream: Any) -> None:
            out.extend([piece async for piece in TextReceiveStream(stream, errors="replace")])

        async with anyio.create_task_group() as group:
            group.start_soon(read_result, process.stdout)
            rest = ""
            async for piece in TextReceiveStream(process.stderr, errors="replace"):
                *whole, rest = (rest + piece).split("\n")
                for line in filter(str.strip, whole):
                    lines.append(line)
                    await ctx.session.report_progress(float(len(lines)), None, line.strip())
        status = await process.wait()
    try:
        data = json.loads("".join(out))
    except ValueError:
        return _text("\n".join(lines) or f"repro-kit ended with exit code {status}.", is_error=True)
    if status == Exit.USAGE:
        return _text(str(data.get("error") or "\n".join(lines)), is_error=True)
    return _typed(tool, data, status)


def _typed(tool: CommandTool, data: dict[str, Any], status: int) -> types.CallToolResult:
    if tool.result == "story":
        known = schema_of("story")["properties"]
        parts = {name: value for name, value in data.items() if name not in known}
        data = {"story": {name: value for name, value in data.items() if name in known}, **parts}
    data = {"exit": status, **data}
    if tool.result == "manifest":
        manifest = archive.read_one(Path(data["bundle"]), MANIFEST) if data.get("bundle") else None
        data["manifest"] = json.loads(manifest) if manifest else None
    text = types.TextContent(type="text", text=json.dumps(data, indent=2, ensure_ascii=False))
    return types.CallToolResult(content=[text], structured_content=data)


def _text(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


async def _list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    try:
        names = tools.bundles(Path.cwd(), await roots_of(ctx, params) or (Path.cwd(),))
    except OSError as error:
        raise MCPError(types.INTERNAL_ERROR, f"The directory cannot be read: {error.strerror}.") from error
    return types.ListResourcesResult(
        resources=[
            types.Resource(name=name, uri=tools.uri_of(name), description="A bundle: a failure and its repro.py.")
            for name in names
        ]
    )


async def _list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        name="bundle", uri_template=tools.TEMPLATE, description="A bundle in the directory of the server."
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> Any:
    try:
        roots = await roots_of(ctx, params)
        if roots is None:
            return types.InputRequiredResult(input_requests={ROOTS: ROOTS_QUESTION})
        files = tools.contents(str(params.uri), Path.cwd(), roots)
    except ReproKitError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except (OSError, ValueError) as error:
        raise MCPError(types.INVALID_PARAMS, f"{params.uri} cannot be read.") from error
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text) for uri, kind, text in files]
    )
