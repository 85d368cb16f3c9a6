"""Everything in which moto 5.2.5 differs from AWS in a way that Workbench could trip over or come to rely on.

Each adaptation is one function whose docstring says what moto does, what AWS does and why it matters. They are
applied by :func:`adapt` and undone by what it returns; ``without`` leaves some out, which is how the tests show that
moto still needs each of them (``tests/local/test_moto_adaptations.py``). Nothing else in the project patches moto.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import sys
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol
from urllib.parse import unquote
from weakref import WeakSet

import botocore.handlers
import moto.backends  # noqa: F401 - registers the services, and the stubber in botocore's built-in handlers
import moto.dynamodb.models as dynamodb_models
from botocore.awsrequest import AWSPreparedRequest
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.config import DefaultConfig
from moto.core.exceptions import ServiceException
from moto.core.models import botocore_stubber
from moto.core.responses import ActionResult, EmptyResult
from moto.dynamodb.exceptions import ItemSizeTooLarge, ItemSizeToUpdateTooLarge, MockValidationException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing import ast_nodes, expressions
from moto.dynamodb.responses import DynamoHandler
from moto.s3.exceptions import S3ClientError
from moto.s3.responses import S3Response
from moto.s3.utils import _VersionedKeyStore

from local.functions import PAYLOAD_BYTES, FunctionMissing


@contextmanager
def _batch_without_ec2() -> Iterator[None]:
    """moto's Step Functions imports its Batch, and with it all of EC2 (a second of every start), for one enumeration.
    While it is imported, that enumeration is all there is of Batch. This cannot be undone, so it is no adaptation.
    """
    names = ("moto.batch", "moto.batch.utils")
    if names[0] in sys.modules:
        yield
        return
    package, utils = map(ModuleType, names)
    vars(package)["__path__"] = []
    vars(utils)["JobStatus"] = Enum("JobStatus", {status: status for status in ("SUCCEEDED", "FAILED")}, type=str)
    sys.modules.update(zip(names, (package, utils), strict=True))
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


with _batch_without_ec2():
    from moto.stepfunctions.parser.api import InvalidToken, TaskTimedOut
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_callback,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
    from moto.stepfunctions.parser.asl.eval.callback.callback import (
        CallbackConsumerTimeout,
        CallbackEndpoint,
        CallbackNotifyConsumerError,
        CallbackOutcomeFailure,
        CallbackOutcomeSuccess,
        CallbackPoolManager,
    )
    from moto.stepfunctions.parser.asl.parse import asl_parser
    from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
    from moto.stepfunctions.parser.asl.utils import boto_client
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend
    from moto.stepfunctions.responses import StepFunctionResponse

MOTO_CONFIG: DefaultConfig = {
    "stepfunctions": {"execute_state_machine": True},
    "lambda": {"use_docker": False},
}

ITEM_BYTES = 400 * 1024
TRANSACTION_BYTES = 4 * 1024 * 1024
REMEMBERED = 10_000
# How often one who waits looks whether its execution still runs.
LOOK_SECONDS = 0.5

_TASK_OVER = "Task Timed Out: 'Provided task does not exist anymore'"
_PLACEHOLDER = re.compile(r"[:#][A-Za-z0-9_]+")
_EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)
# While its mocks are on, moto answers everything under this name, if only with a 404.
_AWS_HOST = re.compile(r"https?://[^/@]+\.amazonaws\.com/")
_LOOPBACK_HOST = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")
_INVOKE = re.compile(r"https?://lambda\.[a-z0-9-]+\.amazonaws\.com/2015-03-31/functions/([^/?]+)/invocations")
_ECS = re.compile(r"https?://ecs\.[a-z0-9-]+\.amazonaws\.com/")


class Functions(Protocol):
    """Where Invoke goes: :class:`local.functions.LocalFunctions`."""

    def invoke(self, name: str, payload: bytes) -> tuple[bytes, bool]: ...

    def invoke_later(self, name: str, payload: bytes) -> None: ...


class Tasks(Protocol):
    """Where ECS goes: :class:`local.tasks.LocalTasks`. Requests and answers have the shapes of the ECS API."""

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]: ...

    def stop(self, task: str, reason: str) -> dict[str, Any]: ...

    def describe(self, tasks: Collection[str]) -> dict[str, Any]: ...


class Patches:
    """Attributes replaced on moto's classes and modules, and how to put them back."""

    def __init__(self, functions: Functions, tasks: Tasks) -> None:
        self.functions = functions
        self.tasks = tasks
        self._originals: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Set ``owner.name`` and return what it resolved to before."""
        resolved = getattr(owner, name)
        self._originals.append((owner, name, vars(owner).get(name, _INHERITED)))
        setattr(owner, name, value)
        return resolved

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace ``owner.name`` by ``wrapper(its present value)``."""
        self.replace(owner, name, wrapper(getattr(owner, name)))

    def undo(self) -> None:
        while self._originals:
            owner, name, original = self._originals.pop()
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


_INHERITED = object()
Adaptation = Callable[[Patches], None]
ADAPTATIONS: dict[str, Adaptation] = {}


def _adaptation(function: Adaptation) -> Adaptation:
    ADAPTATIONS[function.__name__] = function
    return function


def adapt(functions: Functions, tasks: Tasks, *, without: Collection[str] = ()) -> Callable[[], None]:
    """Apply every adaptation but those named in ``without``; call the result to undo them all."""
    unknown = set(without) - set(ADAPTATIONS)
    if unknown:
        raise ValueError(f"no such adaptation: {sorted(unknown)}")
    patches = Patches(functions, tasks)
    for name, apply in ADAPTATIONS.items():
        if name not in without:
            apply(patches)
    return patches.undo


# ---------------------------------------------------------------- DynamoDB


@_adaptation
def transactions_touch_only_their_items(patches: Patches) -> None:
    """moto deep-copies the whole table for each transaction (seconds at 20,000 items) and, when one fails, puts the
    copy back: commits that other threads made meanwhile are gone. AWS isolates transactions by item. Here the items
    of the transaction are remembered and put back, nothing else is copied.
    """

    def deepcopy(value: Any, memo: Any = None) -> Any:
        return value if isinstance(value, Table) else copy.deepcopy(value, memo)

    patches.replace(dynamodb_models, "copy", SimpleNamespace(deepcopy=deepcopy))

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
            before = [_remember(self, kind, operation) for entry in transact_items for kind, operation in entry.items()]
            try:
                stock(self, transact_items)
            except Exception:
                for put_back in before:
                    put_back()
                raise

        return transact_write_items

    patches.wrap(DynamoDBBackend, "transact_write_items", wrapper)


@_adaptation
def items_hold_400_kilobytes(patches: Patches) -> None:
    """moto refuses items above 405,000 bytes when a top-level attribute is set, and checks nothing when a nested one
    is. AWS refuses above 409,600 bytes, however the item grew. SEEN maps grow by nested updates.
    """
    patches.replace(LimitedSizeDict, "__setitem__", dict.__setitem__)

    def wrap_put(stock: Callable[..., Any]) -> Callable[..., Any]:
        def put_item(self: Table, item_attrs: dict[str, Any], *rest: Any, **more: Any) -> Any:
            if _attributes_size(item_attrs) > ITEM_BYTES:
                raise ItemSizeTooLarge
            return stock(self, item_attrs, *rest, **more)

        return put_item

    def wrap_update(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(self: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **more: Any) -> Any:
            item = stock(self, table_name, key, *rest, **more)
            if _attributes_size(item.attrs) > ITEM_BYTES:
                raise ItemSizeToUpdateTooLarge
            return item

        return update_item

    patches.wrap(Table, "put_item", wrap_put)
    patches.wrap(DynamoDBBackend, "update_item", wrap_update)


@_adaptation
def failed_updates_change_nothing(patches: Patches) -> None:
    """moto applies an update clause by clause to the live item: when a later one is refused (an item grown too large)
    the earlier ones stay. In AWS a refused UpdateItem changes nothing.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(self: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **more: Any) -> Any:
            put_back = _remember(self, "Update", {"TableName": table_name, "Key": key})
            try:
                return stock(self, table_name, key, *rest, **more)
            except Exception:
                put_back()
                raise

        return update_item

    patches.wrap(DynamoDBBackend, "update_item", wrapper)


@_adaptation
def transactions_hold_4_megabytes(patches: Patches) -> None:
    """moto accepts transactions of any size. AWS refuses those whose items add up to more than 4 MB."""

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
            total = sum(
                _attributes_size(operation.get(part) or {})
                for entry in transact_items
                for operation in entry.values()
                for part in ("Item", "Key", "ExpressionAttributeValues")
            )
            if total > TRANSACTION_BYTES:
                raise MockValidationException("Transaction request size exceeds the maximum of 4 MB")
            stock(self, transact_items)

        return transact_write_items

    patches.wrap(DynamoDBBackend, "transact_write_items", wrapper)


@_adaptation
def repeated_transactions_run_once(patches: Patches) -> None:
    """moto ignores ClientRequestToken, which the SDK sends with every transaction. AWS answers a repeated token with
    the first success, and refuses it with other contents. A retry after a lost answer must not fail its own condition.
    """
    done: OrderedDict[str, str] = OrderedDict()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoHandler) -> Any:
            token = self.body.get("ClientRequestToken")
            contents = hashlib.sha256(repr(self.body["TransactItems"]).encode()).hexdigest()
            if token and token in done:
                if done[token] != contents:
                    raise IdempotentParameterMismatch
                return ActionResult({})
            answer = stock(self)
            if token:
                _remember_in(done, token, contents)
            return answer

        return transact_write_items

    patches.wrap(DynamoHandler, "transact_write_items", wrapper)


class IdempotentParameterMismatch(ServiceException):
    code = "IdempotentParameterMismatchException"
    message = "The request token was used before, with other contents."


@_adaptation
def nested_add_is_refused(patches: Patches) -> None:
    """moto lets ADD and DELETE address a nested attribute; DynamoDB documents both for top-level attributes only."""
    nodes: Any = ast_nodes
    parser: Any = vars(expressions)["UpdateExpressionParser"]
    top_level_only = [nodes.UpdateExpressionAddAction, nodes.UpdateExpressionDeleteAction]
    descender = nodes.ExpressionPathDescender

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(
            self: DynamoDBBackend, table_name: str, key: dict[str, Any], update_expression: str, *rest: Any, **more: Any
        ) -> Any:
            if update_expression:
                for action in parser.make(update_expression).find_clauses(top_level_only):
                    if any(isinstance(node, descender) for node in action.children[0].children):
                        raise MockValidationException(
                            "Invalid UpdateExpression: ADD and DELETE take top-level attributes only"
                        )
            return stock(self, table_name, key, update_expression, *rest, **more)

        return update_item

    patches.wrap(DynamoDBBackend, "update_item", wrapper)


@_adaptation
def placeholders_are_defined_and_used(patches: Patches) -> None:
    """moto accepts values that no expression uses and raises a bare KeyError for one that is not defined. AWS refuses
    both with a ValidationException, which conditions joined from fragments run into easily.
    """

    def check(part: Mapping[str, Any]) -> None:
        text = " ".join(part.get(name) or "" for name in _EXPRESSIONS)
        used = set(_PLACEHOLDER.findall(text))
        given = {*(part.get("ExpressionAttributeValues") or {}), *(part.get("ExpressionAttributeNames") or {})}
        if used - given:
            missing = sorted(used - given)
            raise MockValidationException(f"An expression uses placeholders that are not defined: {missing}")
        if given - used:
            idle = sorted(given - used)
            raise MockValidationException(f"Placeholders are unused in expressions: {idle}")

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def action(self: DynamoHandler) -> Any:
            for entry in self.body.get("TransactItems") or []:
                for operation in entry.values():
                    check(operation)
            check(self.body)
            return stock(self)

        return action

    for name in ("put_item", "update_item", "delete_item", "query", "scan", "transact_write_items"):
        patches.wrap(DynamoHandler, name, wrapper)


@_adaptation
def query_reads_one_partition(patches: Patches) -> None:
    """moto sorts the whole table for every Query (148 ms at 20,000 items). AWS reads one partition. The items of a
    table query are those of its partition; an index query needs no order here, because moto sorts its matches later.
    """
    asked = threading.local()

    def wrap_query(stock: Callable[..., Any]) -> Callable[..., Any]:
        def query(self: Table, hash_key: DynamoType | None, *rest: Any, **more: Any) -> Any:
            index_name = more.get("index_name", rest[6] if len(rest) > 6 else None)
            asked.partition = None if index_name else hash_key
            asked.unsorted = True
            try:
                return stock(self, hash_key, *rest, **more)
            finally:
                asked.unsorted = False

        return query

    def wrap_all_items(stock: Callable[..., Any]) -> Callable[..., Any]:
        def all_items(self: Table) -> list[Item]:
            if not getattr(asked, "unsorted", False) or not self.range_key_attr:
                found: list[Item] = stock(self)
                return found
            if asked.partition is not None:
                return list(self.items[asked.partition].values()) if asked.partition in self.items else []
            return [item for items in self.items.values() for item in items.values()]

        return all_items

    patches.wrap(Table, "query", wrap_query)
    patches.wrap(Table, "all_items", wrap_all_items)


@_adaptation
def requests_are_decided_one_at_a_time(patches: Patches) -> None:
    """moto checks a condition and writes in two steps without a lock, so that two threads can both pass the check.
    In AWS each request on an item is atomic, which is what the fence, the lease and exactly-once calls stand on.
    """
    lock = threading.RLock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call_action(self: DynamoHandler) -> Any:
            with lock:
                return stock(self)

        return call_action

    patches.wrap(DynamoHandler, "call_action", wrapper)


def _remember(backend: DynamoDBBackend, kind: str, operation: Mapping[str, Any]) -> Callable[[], None]:
    """What puts the operation's item back as it is now. Only an update changes an item in place."""
    table: Table | None = backend.tables.get(operation.get("TableName", ""))
    key: Mapping[str, Any] = operation.get("Item" if kind == "Put" else "Key") or {}
    if table is None or kind == "ConditionCheck" or not all(name in key for name in table.table_key_attrs):
        return lambda: None
    partition = DynamoType(key[table.hash_key_attr])
    if table.range_key_attr is None:
        rows: dict[Any, Any] = table.items
        place = partition
    else:
        rows, place = table.items[partition], DynamoType(key[table.range_key_attr])
    item = rows.get(place)
    if kind == "Update":
        item = copy.deepcopy(item)

    def put_back() -> None:
        if item is None:
            rows.pop(place, None)
        else:
            rows[place] = item

    return put_back


def _attributes_size(attributes: Mapping[str, Any]) -> int:
    """Bytes of names and values as DynamoDB counts them ("Item sizes and formats" in its developer guide)."""
    return sum(len(name.encode()) + _size(value) for name, value in attributes.items())


def _size(value: Any) -> int:
    kind, held = (value.type, value.value) if isinstance(value, DynamoType) else next(iter(value.items()))
    if kind == "S":
        return len(held.encode())
    if kind == "B":
        return len(held if isinstance(held, bytes) else base64.b64decode(held))
    if kind == "N":
        return (len(str(held).strip("-0.")) + 1) // 2 + 1
    if kind in ("BOOL", "NULL"):
        return 1
    if kind == "M":
        return 3 + sum(len(name.encode()) + _size(part) + 1 for name, part in held.items())
    if kind == "L":
        return 3 + sum(_size(part) + 1 for part in held)
    return sum(_size({kind[0]: part}) for part in held)


def _remember_in(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


# ---------------------------------------------------------------- S3


class BadDigest(S3ClientError):
    code = "BadDigest"


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


_CHECKSUMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "x-amz-checksum-sha256": ("SHA256", lambda data: hashlib.sha256(data).digest()),
    "x-amz-checksum-sha1": ("SHA1", lambda data: hashlib.sha1(data).digest()),
    "x-amz-checksum-crc32": ("CRC32", _crc32),
    "content-md5": ("Content-MD5", lambda data: hashlib.md5(data).digest()),
}


@_adaptation
def uploads_match_their_checksums(patches: Patches) -> None:
    """moto stores an object whatever checksum was sent with it. S3 refuses a body that does not match with BadDigest;
    content-addressed blobs rely on that.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def upload(self: S3Response) -> Any:
            body = self.body if isinstance(self.body, bytes) else (self.body or "").encode()
            for header, (name, compute) in _CHECKSUMS.items():
                said = self.headers.get(header)
                if said and said != base64.b64encode(compute(body)).decode():
                    raise BadDigest(f"The {name} you specified did not match the calculated checksum.")
            return stock(self)

        return upload

    for name in ("put_object", "upload_part"):
        patches.wrap(S3Response, name, wrapper)


@_adaptation
def objects_are_decided_one_at_a_time(patches: Patches) -> None:
    """moto looks for an object and stores it in two steps, so that two threads which send ``If-None-Match: *`` both
    win. In S3 one of them gets 412.
    """
    lock = threading.RLock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def respond(self: S3Response, *arguments: Any, **named: Any) -> Any:
            with lock:
                return stock(self, *arguments, **named)

        return respond

    patches.wrap(S3Response, "key_response", wrapper)


@_adaptation
def listings_pass_over_what_goes(patches: Patches) -> None:
    """moto lists a bucket key by key and fails when another thread removes one of them for good meanwhile. In S3 a
    listing shows such a key or does not.
    """

    def lists(self: Any) -> Iterator[tuple[str, list[Any]]]:
        yield from ((key, versions) for key, versions in self._self_iterable().items() if versions)

    def items(self: Any) -> Iterator[tuple[str, Any]]:
        yield from ((key, versions[-1]) for key, versions in lists(self))

    def values(self: Any) -> Iterator[Any]:
        yield from (versions[-1] for _key, versions in lists(self))

    for name, function in (("lists", lists), ("items", items), ("values", values)):
        patches.replace(_VersionedKeyStore, name, function)
        patches.replace(_VersionedKeyStore, f"iter{name}", function)


@_adaptation
def tags_can_be_emptied(patches: Patches) -> None:
    """moto fails with a TypeError on PutObjectTagging with an empty TagSet, by which S3 removes every tag."""

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def tagging_from_xml(self: S3Response) -> Any:
            body = self.body if isinstance(self.body, bytes) else (self.body or "").encode()
            return stock(self) if b"<Tag>" in body else {}

        return tagging_from_xml

    patches.wrap(S3Response, "_tagging_from_xml", wrapper)


# ---------------------------------------------------------------- Step Functions


@_adaptation
def step_clients_are_kept(patches: Patches) -> None:
    """moto makes a boto client for each step of each execution (30 ms, and boto's factory is not thread-safe). One per
    service and region is kept.
    """
    clients: dict[tuple[str, str], Any] = {}
    making = threading.Lock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def boto_client_for(region: str, service: str, **_credentials: Any) -> Any:
            with making:
                if (region, service) not in clients:
                    clients[region, service] = stock(region=region, service=service)
                return clients[region, service]

        return boto_client_for

    kept = wrapper(boto_client.boto_client_for)
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.") and "boto_client_for" in vars(module):
            patches.replace(module, "boto_client_for", kept)


@_adaptation
def definitions_are_parsed_once(patches: Patches) -> None:
    """moto parses the definition anew for every execution. The parse tree is kept; the components made of it are not,
    for executions run at the same time.
    """
    trees: dict[str, Any] = {}

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def parse(definition: str) -> Any:
            if definition in trees:
                return Preprocessor().visit(trees[definition]), trees[definition]
            program, tree = stock(definition)
            trees[definition] = tree
            return program, tree

        return staticmethod(parse)

    patches.wrap(asl_parser.AmazonStateLanguageParser, "parse", wrapper)


@_adaptation
def names_start_one_execution(patches: Patches) -> None:
    """moto looks for an execution of the name and starts one in two steps. In AWS a name starts one execution, however
    many requests arrive at once; a run is started under a name made of its call id for that very reason.
    """
    lock = threading.Lock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def start_execution(self: StepFunctionsParserBackend, *arguments: Any, **named: Any) -> Any:
            with lock:
                return stock(self, *arguments, **named)

        return start_execution

    patches.wrap(StepFunctionsParserBackend, "start_execution", wrapper)


@_adaptation
def task_tokens_are_found_anywhere(patches: Patches) -> None:
    """moto searches the running executions for a token: one that has only just started breaks the search for all
    others, and the token of an ended execution is called invalid. AWS knows every token it issued and answers
    TaskTimedOut once its task is over, which a sandbox that reports late must get.
    """
    pools: OrderedDict[str, CallbackPoolManager] = OrderedDict()

    def wrap_add(stock: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: CallbackPoolManager, callback_id: str) -> Any:
            _remember_in(pools, callback_id, self)
            return stock(self, callback_id)

        return add

    def pool_of(token: str) -> CallbackPoolManager:
        if token not in pools:
            raise InvalidToken
        return pools[token]

    def notify(token: str, outcome: Any) -> None:
        try:
            pool_of(token).notify(callback_id=token, outcome=outcome)
        except CallbackNotifyConsumerError as error:
            raise TaskTimedOut(_TASK_OVER, "TaskTimedOut", 400) from error

    def send_task_success(_backend: Any, task_token: str, outcome: str) -> None:
        notify(task_token, CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def send_task_failure(_backend: Any, task_token: str, error: str | None = None, cause: str | None = None) -> None:
        notify(task_token, CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))

    def send_task_heartbeat(_backend: Any, task_token: str) -> None:
        try:
            if not pool_of(task_token).heartbeat(callback_id=task_token):
                raise InvalidToken
        except CallbackNotifyConsumerError as error:
            raise TaskTimedOut(_TASK_OVER, "TaskTimedOut", 400) from error

    patches.wrap(CallbackPoolManager, "add", wrap_add)
    patches.replace(StepFunctionsParserBackend, "send_task_success", send_task_success)
    patches.replace(StepFunctionsParserBackend, "send_task_failure", send_task_failure)
    patches.replace(StepFunctionsParserBackend, "send_task_heartbeat", send_task_heartbeat)


@_adaptation
def failures_keep_their_cause(patches: Patches) -> None:
    """moto drops the cause of a SendTaskFailure. AWS hands it to the Catch, where Abort reads why a run was lost."""

    def send_task_failure(self: StepFunctionResponse) -> ActionResult:
        backend: Any = self.stepfunction_backend
        backend.send_task_failure(
            self._get_param("taskToken"), error=self._get_param("error"), cause=self._get_param("cause")
        )
        return EmptyResult()

    patches.replace(StepFunctionResponse, "send_task_failure", send_task_failure)


@_adaptation
def tasks_complete_once(patches: Patches) -> None:
    """moto accepts a second completion of a task, and one after its time ran out; the second may even replace the
    first. AWS answers TaskTimedOut.
    """
    deciding = threading.Lock()

    def check(pool: CallbackPoolManager, token: str) -> None:
        endpoint = pool.get(token)
        if endpoint is not None and endpoint.get_outcome() is not None:
            raise CallbackNotifyConsumerError(CallbackConsumerTimeout())

    def wrap_notify(stock: Callable[..., Any]) -> Callable[..., Any]:
        def notify(self: CallbackPoolManager, callback_id: str, outcome: Any) -> Any:
            with deciding:
                check(self, callback_id)
                return stock(self, callback_id=callback_id, outcome=outcome)

        return notify

    def wrap_heartbeat(stock: Callable[..., Any]) -> Callable[..., Any]:
        def heartbeat(self: CallbackPoolManager, callback_id: str) -> Any:
            with deciding:
                check(self, callback_id)
                return stock(self, callback_id=callback_id)

        return heartbeat

    def wrap_evaluate(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            if not _waits_for_token(self):
                stock(self, env)
                return
            endpoint = env.callback_pool_manager.get(_token(env))
            try:
                stock(self, env)
            finally:
                with deciding:
                    endpoint.report(CallbackConsumerTimeout())
                endpoint.interrupt_all()

        return evaluate

    patches.wrap(CallbackPoolManager, "notify", wrap_notify)
    patches.wrap(CallbackPoolManager, "heartbeat", wrap_heartbeat)
    patches.wrap(_CallbackState, "_evaluate_with_timeout", wrap_evaluate)


@_adaptation
def attempts_have_their_own_token(patches: Patches) -> None:
    """moto keeps a task's token over its retries, so that a second attempt ends at once with the first one's outcome.
    AWS issues a new token for each attempt.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            context = env.states.context_object
            if _waits_for_token(self) and context.context_object_data["State"]["RetryCount"] > 0:
                env.callback_pool_manager.add(context.update_task_token())
            stock(self, env)

        return evaluate

    patches.wrap(_CallbackState, "_evaluate_with_timeout", wrapper)


@_adaptation
def early_callbacks_count(patches: Patches) -> None:
    """moto listens for a task's heartbeats only once the function that was given the token has returned: an earlier
    SendTaskSuccess is noticed when the heartbeat time is over, as a failure, and an earlier heartbeat is refused. AWS
    honours both from the moment the token exists. A warm sandbox is faster than the function that woke it.
    """

    early: WeakSet[CallbackEndpoint] = WeakSet()

    def wrap_setup(stock: Callable[..., Any]) -> Callable[..., Any]:
        def setup_heartbeat_endpoint(self: CallbackEndpoint, heartbeat_seconds: int) -> Any:
            heartbeats = stock(self, heartbeat_seconds=heartbeat_seconds)
            if self.get_outcome() is not None or self in early:
                heartbeats.notify()
            return heartbeats

        return setup_heartbeat_endpoint

    def wrap_heartbeat(stock: Callable[..., Any]) -> Callable[..., Any]:
        def notify_heartbeat(self: CallbackEndpoint) -> bool:
            if not stock(self):
                early.add(self)
            return True

        return notify_heartbeat

    patches.wrap(CallbackEndpoint, "setup_heartbeat_endpoint", wrap_setup)
    patches.wrap(CallbackEndpoint, "notify_heartbeat", wrap_heartbeat)


@_adaptation
def retries_wait_for_their_execution(patches: Patches) -> None:
    """moto sleeps before it tries a state again, whatever happens to the execution meanwhile. AWS ends one that is
    stopped at once. Stopping the local system must not wait for a retry of what it has just cut off.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            waiting.execution = env
            stock(self, env)

        return evaluate

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        # The event is set for a moment only: who begins to wait right then misses it.
        while waiting.execution.is_running() and (left := until - time.monotonic()) > 0:
            waiting.execution.program_state_event.wait(min(left, LOOK_SECONDS))

    waiting = threading.local()
    patches.wrap(retrier_decl.RetrierDecl, "_eval_body", wrapper)
    patches.replace(retrier_decl, "time", SimpleNamespace(sleep=sleep))


_CallbackState: Any = state_task_service_callback.StateTaskServiceCallback


def _waits_for_token(state: Any) -> bool:
    return bool(state.resource.condition == ResourceCondition.WaitForTaskToken)


def _token(env: Any) -> str:
    token: str = env.states.context_object.context_object_data["Task"]["Token"]
    return token


# ---------------------------------------------------------------- Lambda, ECS, the network


@_adaptation
def functions_run_here(patches: Patches) -> None:
    """moto runs functions in Docker or answers every Invoke with its own payload. Here the handler of that name runs:
    what it raises becomes a function error, and ``Event`` invocations return before it ran, as in AWS.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def process_request(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
            invocation = _INVOKE.match(request.url)
            if invocation is None:
                return stock(self, request)
            return _invoke(patches.functions, unquote(invocation.group(1)), request)

        return process_request

    patches.wrap(BotocoreStubber, "process_request", wrapper)


@_adaptation
def tasks_run_here(patches: Patches) -> None:
    """moto's ECS loads its EC2 backend (a second of imports) and its RunTask starts nothing. Here the request goes to
    the launcher before moto sees it, and the task it names is a real process.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def process_request(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
            _service, _dot, operation = _text(request.headers.get("X-Amz-Target")).partition(".")
            if not _ECS.match(request.url) or operation not in ("RunTask", "StopTask", "DescribeTasks"):
                return stock(self, request)
            sent = json.loads(request.body)
            if operation == "RunTask":
                answer = patches.tasks.run(sent)
            elif operation == "DescribeTasks":
                answer = patches.tasks.describe(sent["tasks"])
            else:
                try:
                    answer = patches.tasks.stop(sent["task"], sent.get("reason") or "")
                except LookupError:
                    return _refused(400, "InvalidParameterException", "The referenced task was not found.")
            return 200, {"content-type": "application/x-amz-json-1.1"}, json.dumps(answer)

        return process_request

    patches.wrap(BotocoreStubber, "process_request", wrapper)


def _invoke(functions: Functions, name: str, request: AWSPreparedRequest) -> Any:
    payload = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
    if len(payload) > PAYLOAD_BYTES:
        return _refused(413, "RequestTooLargeException", f"The payload has more than {PAYLOAD_BYTES} bytes.")
    try:
        if _text(request.headers.get("X-Amz-Invocation-Type")) == "Event":
            functions.invoke_later(name, payload)
            return 202, {}, b""
        answer, failed = functions.invoke(name, payload)
    except FunctionMissing:
        return _refused(404, "ResourceNotFoundException", f"Function not found: {name}")
    headers = {"content-type": "application/json"}
    if failed:
        headers["x-amz-function-error"] = "Unhandled"
    return 200, headers, answer


def _refused(status: int, code: str, message: str) -> tuple[int, dict[str, str], str]:
    return status, {"x-amzn-errortype": code}, json.dumps({"__type": code, "message": message})


def _text(header: str | bytes | None) -> str:
    return header.decode() if isinstance(header, bytes) else header or ""


class OutsideLoopback(Exception):
    """Something in a process that runs the local system tried to reach a host that is not this one."""


def stay_on_this_machine() -> None:
    """moto lets requests pass that no mocked service claims (an endpoint of one's own), and all of them once its mocks
    are stopped. From now on, for the life of the process, botocore sessions made later reach loopback or nothing.
    """
    if all(entry[1] is not refuse_outside for entry in botocore.handlers.BUILTIN_HANDLERS):
        botocore.handlers.BUILTIN_HANDLERS.append(("before-send", refuse_outside))


def refuse_outside(request: AWSPreparedRequest, **_ignored: Any) -> None:
    """The handler that does it: raises :class:`OutsideLoopback` before anything is sent."""
    mocked = botocore_stubber.enabled and _AWS_HOST.match(request.url)
    if not mocked and not _LOOPBACK_HOST.match(request.url):
        raise OutsideLoopback(f"refused to send a request to {request.url.partition('?')[0]}")
