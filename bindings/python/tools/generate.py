"""Writes the parts of the package that follow from the tables of operations and records in the Rust sources.

The operations, their parameters and what they say about themselves are read from the sources of the core, so that the
package can know no other ones. ``generate.py`` writes the files, ``generate.py --check`` compares them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[2] / "crates" / "core" / "src"
PACKAGE = HERE.parent / "src" / "runledger"

HEADER = '"""{what} Written by tools/generate.py; edit that or the Rust sources."""\n\n'

# How a Rust type is annotated, and which method of a request writes it.
KINDS = {
    "Id": ("str", "text"),
    "Text": ("str", "text"),
    "String": ("str", "text"),
    "Time": ("datetime", "time"),
    "Payload": ("PayloadLike", "payload"),
    "u32": ("int", "integer"),
    "u64": ("int", "integer"),
    "bool": ("bool", "boolean"),
    "EndStatus": ("EndStatus", "text"),
    "AnswerForm": ("AnswerForm", "text"),
    "Order": ("Order", "text"),
    "Execution": ("Execution", "execution"),
    "Principal": ("Principal", "principal"),
    "Vec<Id>": ("Iterable[str]", "texts"),
    "Vec<Status>": ("Iterable[Status]", "texts"),
    "Vec<EndStatus>": ("Iterable[EndStatus]", "texts"),
}

# How an answer is annotated, and what reads it.
ANSWERS = {
    "Run": ("Run", "read_run"),
    "NodeRun": ("NodeRun", "read_node"),
    "AgentRun": ("AgentRun", "read_agent"),
    "Option<Run>": ("Run | None", "read_maybe_run"),
    "Option<NodeRun>": ("NodeRun | None", "read_maybe_node"),
    "Option<AgentRun>": ("AgentRun | None", "read_maybe_agent"),
    "Runs": ("tuple[Run, ...]", "read_runs"),
    "Expired<Run>": ("Expired[Run]", "read_expired_runs"),
    "Expired<AgentRun>": ("Expired[AgentRun]", "read_expired_agents"),
    "Deleted": ("Counts", "read_counts"),
    "Purged": ("Purged", "read_purged"),
    "RunStats": ("RunStats", "read_stats"),
    "StoreInfo": ("StoreInfo", "read_info"),
    "VerifyReport": ("VerifyReport", "read_verified"),
    "CompactReport": ("CompactReport", "read_compacted"),
}
PAGES = {
    "Page<Run>": ("Run", '"runs", read_run'),
    "Page<NodeRun>": ("NodeRun", '"nodes", read_node'),
    "Page<AgentRun>": ("AgentRun", '"agents", read_agent'),
    "Page<ProjectSummary>": ("ProjectSummary", '"projects", read_project'),
}

ANSWER_NAMES = ["CompactReport", "Counts", "Expired", "ProjectSummary", "Purged", "RunStats", "StoreInfo", "VerifyReport"]
ANSWER_NAMES += [reader for _, reader in ANSWERS.values() if reader not in ("read_run", "read_node", "read_agent")] + ["read_project"]

# The fields that every page has; they come last in the Rust macro, and here too.
PAGE_FIELDS = """
        /// The direction.
        order: Order = "order",
        /// The most rows: 0 to 10,000, and 50 when not given.
        limit: u32 = "limit",
        /// How many matching rows to pass over; not together with a cursor.
        offset: u64 = "offset",
        /// Where an earlier page ended: its `next_cursor`.
        cursor: String = "cursor",
        /// Whether to count all matches; it does when not given.
        with_total: bool = "withTotal",
"""


@dataclass
class Field:
    name: str
    rust: str
    json: str
    doc: str
    required: bool

    @property
    def annotation(self) -> str:
        annotation = KINDS[self.rust][0]
        if self.required:
            return annotation
        return f"{annotation} = ABSENT" if self.rust == "Payload" else f"{annotation} | None = None"


@dataclass
class Operation:
    op: str
    answer: str
    doc: str
    fields: list[Field]



def snippets(source: str, macro: str) -> list[str]:
    """The bodies of a macro's calls."""
    text = (CORE / source).read_text()
    return re.findall(rf"^{macro}! {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)


def prose(lines: str) -> str:
    """A doc comment as plain text, with the names of Rust turned into those of Python."""
    text = " ".join(line.strip()[3:].strip() for line in lines.strip().splitlines())
    text = text.replace("[`CancelRun`]", "``cancel``")
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)


def fields(text: str, required: bool) -> list[Field]:
    found = re.findall(r'((?:\s*///[^\n]*\n)+)\s*(\w+)(?:, \w+)?: ([\w<>]+) = "(\w+)",', text)
    return [Field(name, rust, json, prose(doc), required) for doc, name, rust, json in found]


def operations(source: str) -> list[Operation]:
    found = []
    for macro in ("operation", "list"):
        for body in snippets(source, macro):
            match = re.match(r'((?:\s*///[^\n]*\n)+)\s*\w+ = "([\w.]+)" -> ([\w<>]+) {\n(.*?)\n?\s*;\n(.*?)\n?\s{4}}', body, re.DOTALL)
            if match is None:
                raise SystemExit(f"{source}: an operation is written in a way that is not known here:\n{body}")
            doc, op, answer, before, after = match.groups()
            optional = after + (PAGE_FIELDS if macro == "list" else "")
            found.append(Operation(op, answer, prose(doc), fields(before, True) + fields(optional, False)))
    if not found:
        raise SystemExit(f"{source} has no operations that can be read")
    return found


WAITING = ("runs.claim", "agents.claim")
WAIT_DOC = "How long to wait for one to be queued: seconds or a timedelta. The end of the lease stays as it is given."


def signature(operation: Operation, answer: str, waits: bool) -> str:
    """Keys come by position, everything else by name."""
    keys = [f for f in operation.fields if f.required and f.name in ("project_id", "id", "node_run_id")]
    named = [f for f in operation.fields if f not in keys]
    if not operation.fields:
        return f"    def {operation.op.split('.')[1]}(self) -> {answer}:\n"
    parts = ["self"] + [f"{f.name}: {f.annotation}" for f in keys]
    parts += (["*"] if named else []) + [f"{f.name}: {f.annotation}" for f in named]
    parts += ["wait: float | timedelta | None = None"] if waits else []
    method = operation.op.split(".")[1]
    return f"    def {method}(\n        " + ",\n        ".join(parts) + f",\n    ) -> {answer}:\n"


def docstring(operation: Operation, waits: bool) -> str:
    if not operation.fields:
        return f'        """{operation.doc}"""\n'
    lines = [f'        """{operation.doc}\n\n']
    lines += [f"        :param {f.name}: {f.doc}\n" for f in operation.fields]
    lines += [f"        :param wait: {WAIT_DOC}\n"] if waits else []
    return "".join(lines) + '        """\n'


def body(operation: Operation, waits: bool) -> str:
    lines = [f'        request = Request("{operation.op}")\n']
    for f in operation.fields:
        write = f'request.{KINDS[f.rust][1]}("{f.json}", {f.name})\n'
        if f.required:
            lines.append(f"        {write}")
        elif f.rust == "Payload":
            lines.append(f"        if {f.name} is not ABSENT:\n            {write}")
        else:
            lines.append(f"        if {f.name} is not None:\n            {write}")
    if operation.answer in PAGES:
        lines.append(f"        return self._carrier.page(request, {PAGES[operation.answer][1]})\n")
    elif waits:
        lines.append(f"        return self._carrier.claim(request, {ANSWERS[operation.answer][1]}, wait)\n")
    else:
        lines.append(f"        return self._carrier.send(request, {ANSWERS[operation.answer][1]})\n")
    return "".join(lines)


def namespace(name: str, members: list[Operation], carrier: str, one: str, page: str, extra: str = "") -> str:
    entity = {"runs": "runs", "nodes": "node runs", "agents": "agent runs", "projects": "projects", "store": "the store itself"}[name]
    text = f'class {carrier}{name.capitalize()}:\n    """What can be done with {entity}."""\n\n'
    text += '    __slots__ = ("_carrier",)\n\n'
    text += f"    def __init__(self, carrier: {carrier}Carrier) -> None:\n        self._carrier = carrier\n"
    for operation in members:
        is_page = operation.answer in PAGES
        answer = page.format(PAGES[operation.answer][0]) if is_page else one.format(ANSWERS[operation.answer][0])
        # A batch is one step, which waits for nothing.
        waits = operation.op in WAITING and carrier != "Batch"
        text += "\n" + signature(operation, answer, waits) + docstring(operation, waits) + body(operation, waits)
    return text + extra + "\n\n"


CONFIRM = '''
    def confirm_lease(
        self,
        project_id: str,
        {id}: str,
        *,
        execution_token: str,
        lease_expires_at: datetime,
    ) -> {answer}:
        """As ``confirm``, answering only the lease's end as it now is: the cheapest heartbeat, made without JSON.

        :param project_id: The project.
        :param {id}: {id_doc}
        :param execution_token: The owner's token.
        :param lease_expires_at: The new end of the lease.
        """
        return self._carrier.confirm("{entity}", project_id, {id}, execution_token, lease_expires_at)
'''


def operations_module(ops: list[Operation], carrier: str, what: str, one: str, page: str, answer: str) -> str:
    names = ["runs", "nodes", "agents", "projects", "store"]
    text = ""
    for name in names:
        members = [op for op in ops if op.op.split(".")[0] == name]
        extra = ""
        if answer and name in ("runs", "agents"):
            key, doc = ("id", "The run's id.") if name == "runs" else ("node_run_id", "The node run.")
            extra = CONFIRM.format(id=key, id_doc=doc, answer=answer, entity=name[:-1])
        if members:
            text += namespace(name, members, carrier, one, page, extra)
    module = {"Ledger": "_carrier", "Async": "_async_carrier", "Batch": "_batch_carrier"}[carrier]
    sources = {
        "collections.abc": ["Awaitable", "Iterable"],
        "datetime": ["datetime", "timedelta"],
        "._absent": ["ABSENT"],
        "._answers": ANSWER_NAMES,
        module: [f"{carrier}Carrier", "AsyncPage", "Page", "Pending"],
        "._payload": ["PayloadLike"],
        "._records": ["AgentRun", "Execution", "NodeRun", "Principal", "Run", "read_agent", "read_node", "read_run"],
        "._request": ["Request"],
        "._words": ["AnswerForm", "EndStatus", "Order", "Status"],
    }
    imports = "from __future__ import annotations\n\n"
    for source, offered in sources.items():
        used = [name for name in offered if re.search(rf"\b{name}\b", text)]
        line = f"from {'.' if source == module else ''}{source} import {', '.join(used)}\n"
        if len(line) > 120:
            line = f"from {source} import (\n" + "".join(f"    {name},\n" for name in used) + ")\n"
        imports += line + ("\n" if source == "datetime" else "")
    imports += "\n\n"
    return HEADER.format(what=what) + imports + text.rstrip() + "\n"


# ---- records

RECORD_KINDS = {
    "Id": ("str", '{o}["{j}"]', '{o}.get("{j}")'),
    "Text": ("str", '{o}["{j}"]', '{o}.get("{j}")'),
    "u32": ("int", '{o}["{j}"]', '{o}.get("{j}")'),
    "Status": ("Status", '{o}["{j}"]', '{o}.get("{j}")'),
    "Time": ("datetime", 'read_time({o}["{j}"])', 'read_time({o}["{j}"]) if "{j}" in {o} else None'),
    "Payload": ("Payload", "", 'read_payload({o}["{j}"], text) if "{j}" in {o} else None'),
    "Principal": ("Principal", 'read_principal({o}["{j}"])', 'read_principal({o}["{j}"]) if "{j}" in {o} else None'),
    "Execution": ("Execution", 'read_execution({o}["{j}"])', 'read_execution({o}["{j}"]) if "{j}" in {o} else None'),
}


def records_module() -> str:
    text = ""
    for body in snippets("record.rs", "record"):
        match = re.match(r"((?:\s*///[^\n]*\n)+)\s*(\w+) {\n(.*)}", body, re.DOTALL)
        if match is None:
            raise SystemExit("record.rs: a record is written in a way that is not known here")
        doc, name, inner = match.groups()
        found = re.findall(r'((?:\s*///[^\n]*\n)+)\s*(\w+): ([\w<>]+) = "(\w+)",', inner)
        text += f'@dataclass(frozen=True, slots=True, kw_only=True)\nclass {name}:\n    """{prose(doc)}"""\n\n'
        reads = ""
        for field_doc, field, rust, json in found:
            optional = rust.startswith("Option<")
            kind = rust[7:-1] if optional else rust
            annotation, required_read, optional_read = RECORD_KINDS[kind]
            text += f"    {field}: {annotation}{' | None' if optional else ''}\n    \"\"\"{prose(field_doc)}\"\"\"\n"
            reads += f"        {field}=" + (optional_read if optional else required_read).format(o="o", j=json) + ",\n"
        reader = {"Run": "read_run", "NodeRun": "read_node", "AgentRun": "read_agent"}[name]
        text += f"\n\ndef {reader}(o: Any, text: bytes) -> {name}:\n"
        text += f'    """A record from the outline of an answer and the answer itself."""\n    return {name}(\n{reads}    )\n\n\n'
    imports = (
        "from __future__ import annotations\n\nfrom dataclasses import dataclass\nfrom datetime import datetime\nfrom typing import Any\n\n"
        "from ._owners import Execution, Principal, read_execution, read_principal\nfrom ._payload import Payload, read_payload\n"
        "from ._time import read_time\nfrom ._words import Status\n\n"
        '__all__ = ["AgentRun", "Execution", "NodeRun", "Principal", "Run", "read_agent", "read_node", "read_run"]\n\n\n'
    )
    return HEADER.format(what="What is stored: runs, node runs and agent runs.") + imports + text.rstrip() + "\n"


def table_module(ops: list[Operation]) -> str:
    """The parameters of every operation under their JSON names, for what maps one form to the other."""
    text = "OPERATIONS: dict[str, dict[str, tuple[str, str, bool]]] = {\n"
    for operation in ops:
        text += f'    "{operation.op}": {{\n'
        for f in operation.fields:
            text += f'        "{f.json}": ("{f.name}", "{KINDS[f.rust][1]}", {f.required}),\n'
        text += "    },\n"
    what = "Every operation: the JSON name of each field, its parameter, its kind, and whether it is required."
    return HEADER.format(what=what) + text + "}\n"


def modules() -> dict[str, str]:
    commands, queries = operations("command.rs"), operations("query.rs")
    ops = commands + queries
    sync = operations_module(ops, "Ledger", "Every operation of a ledger.", "{}", "Page[{}]", "datetime")
    awaited = operations_module(
        ops, "Async", "Every operation of a ledger, for asyncio.", "Awaitable[{}]", "Awaitable[AsyncPage[{}]]", "Awaitable[datetime]"
    )
    batch = operations_module(commands, "Batch", "Every command of a batch.", "Pending[{}]", "", "")
    return {
        "_operations.py": sync,
        "_async_operations.py": awaited,
        "_batch_operations.py": batch,
        "_records.py": records_module(),
        "_table.py": table_module(ops),
    }


def main() -> int:
    stale = []
    for name, text in modules().items():
        path = PACKAGE / name
        if path.is_file() and path.read_text() == text:
            continue
        if "--check" in sys.argv[1:]:
            stale.append(name)
        else:
            path.write_text(text)
    if stale:
        print(f"not as the Rust sources have it: {', '.join(stale)}; tools/generate.py writes them")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
