"""JavaScript evaluated in real child processes: what comes back of ordinary, of broken and of hostile programs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.javascript import evaluator as module
from workbench.javascript.evaluator import CHARACTERS, SECONDS, Evaluator, EvaluatorUnavailable, Outcome

# Programs stand here as the engine gets them.
# ruff: noqa: E501

# Ending a child, starting the next, on a busy machine.
GRACE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that takes long to start, because the machine is busy, is no failure here."""
    monkeypatch.setattr(module, "_START_SECONDS", 60.0)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    made = Evaluator()
    yield made
    made.close()


def value(evaluator: Evaluator, code: str) -> str:
    outcome = evaluator.evaluate(code)
    assert outcome.ended == "value", outcome
    return outcome.text


# ---------------------------------------------------------------- what it is for


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("6 * 7", "42"),
        ("let total = 0; for (let n = 1; n <= 100; n++) total += n; total", "5050"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("2n ** 100n", "1267650600228229401496703205376n"),
        ("'plain\\ntext'", "plain\ntext"),
        ("({name: 'x', list: [1, null, true, 'a\"b'], deep: {er: {}}})",
         '{"name": "x", "list": [1, null, true, "a\\"b"], "deep": {"er": {}}}'),
        ("[undefined, NaN, -0, 1n, Symbol('s'), () => 1, class A {}]",
         "[undefined, NaN, -0, 1n, Symbol(s), [function without a name], [class A]]"),
        ("new Map([['a', new Set([1])]])", 'Map {"a" => Set {1}}'),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new Date(NaN)", "Invalid Date"),
        ("new Date(2024, 0, 1).getTimezoneOffset()", "0"),
        ("/a\\/b/gi", "/a\\/b/gi"),
        ("[new Error('boo'), new TypeError('x')]", '[[Error: "boo"], [TypeError: "x"]]'),
        ("new (class Point { x = 1 })", 'Point {"x": 1}'),
        ("new Uint8Array([1, 2])", "Uint8Array [1, 2]"),
        ("new ArrayBuffer(8)", "ArrayBuffer of 8 bytes"),
        ("[Object(1), Object('s')]", '[Number 1, String "s"]'),
        ("[1,,3]", "[1, <empty>, 3]"),
        ("({get a() { throw 1 }, [Symbol('k')]: 2})", '{"a": [accessor], [Symbol(k)]: 2}'),
        ("(function* () { yield 1 })()", "Generator {}"),
        ("[...(function* () { yield 1; yield 2 })()]", "[1, 2]"),
        ("Object.create(null)", "{}"),
        ("JSON.stringify({a: [1]})", '{"a":[1]}'),
        ("(async () => { const x = await 20; return x + 1 })()", "21"),
        ("Promise.all([1, Promise.resolve(2)])", "[1, 2]"),
        ("'use strict'; 010 === undefined ? 1 : 2".replace("010", "10"), "2"),
        ("// nothing but a remark", "undefined"),
        ("\u00e9 = 'é😀'; \u00e9", "é😀"),
    ],
)  # fmt: skip
def test_the_completion_value_is_shown(evaluator: Evaluator, code: str, shown: str) -> None:
    assert value(evaluator, code) == shown


def test_the_kind_of_the_value_is_told(evaluator: Evaluator) -> None:
    kinds = {"1": "number", "''": "string", "null": "null", "undefined": "undefined", "[]": "array", "({})": "object"}
    kinds |= {"1n": "bigint", "Symbol()": "symbol", "x => x": "function", "true": "boolean"}
    assert {code: evaluator.evaluate(code).type for code in kinds} == kinds


def test_what_is_printed_comes_back_in_order(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate(
        "console.log('a', 1, {b: [2]}); console.error('e'); console.table([{x: 1}]); console.assert(1 > 2, 'less');"
        "console.group('g'); console.groupEnd(); console.log(); 'done'"
    )
    assert outcome.printed == 'a 1 {"b": [2]}\ne\n[{"x": 1}]\nAssertion failed: less\ng\n\n'
    assert (outcome.text, outcome.printed_cut, outcome.text_cut) == ("done", False, False)


def test_console_formats_as_consoles_do(evaluator: Evaluator) -> None:
    code = "console.log('%s is %d%%, %i of %f %j %o%c|%s', 'x', 5.5, -3.7, '2.5', {a: 1}, [1], 'css', 's', 'more', %s)"
    assert evaluator.evaluate(code.replace("%s)", "{})")).printed == 'x is 5.5%, -3 of 2.5 {"a": 1} [1]|s more {}\n'
    assert evaluator.evaluate("console.log('100%', 'a'); console.log('%s')").printed == "100% a\n%s\n"


def test_two_programs_share_nothing(evaluator: Evaluator) -> None:
    evaluator.evaluate("globalThis.left = 1; Array.prototype.left = 1; Math.max = () => 0; JSON = null")
    code = "[typeof left, [].left, Math.max(1, 2), typeof JSON.parse]"
    assert value(evaluator, code) == '["undefined", undefined, 2, "function"]'


def test_programs_run_side_by_side(evaluator: Evaluator) -> None:
    found: dict[int, str] = {}
    work = [
        threading.Thread(target=lambda n=n: found.update({n: value(evaluator, f"let s = {n}; s * s")}))
        for n in range(6)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert found == {n: str(n * n) for n in range(6)}


# ---------------------------------------------------------------- programs that fail


@pytest.mark.parametrize(
    ("code", "name", "message", "place"),
    [
        ("null.x", "TypeError", "cannot read property 'x' of null", "<input>:1:1"),
        ("let y = 1;\n\n  let x = ;", "SyntaxError", "unexpected token in expression: ';'", "<input>:3:11"),
        ("'unfinished", "SyntaxError", "unexpected end of string", "<input>:1:"),
        ("function f() {\n  throw new RangeError('deep') }\nf()", "RangeError", "deep", "<input>:2:"),
        ("class Mine extends Error {}; throw new Mine('own')", "Mine", "own", "<input>:1:"),
        ("const e = new Error('named'); e.name = 'Special'; throw e", "Special", "named", "<input>:1:"),
        ("throw 5", "", "5", ""),
        ("throw {a: 1}", "", '{"a": 1}', ""),
        ("throw undefined", "", "undefined", ""),
        ("throw 'text'", "", "text", ""),
        ("Promise.reject(new TypeError('later'))", "TypeError", "later", "<input>:1:"),
        ("queueMicrotask(() => { throw new TypeError('in a job') }); 1", "TypeError", "in a job", "<input>:1:"),
        ("queueMicrotask(() => { throw 'plain' }); 1", "", "plain", ""),
        ("const x = 1n + 1", "TypeError", "", "<input>:1:"),
        ("const o = {}; o.o = o; JSON.stringify(o)", "TypeError", "circular", "<input>:1:"),
        ("JSON.stringify({big: 1n})", "TypeError", "", "<input>:1:"),
        ("(function f() { f() })()", "RangeError", "Maximum call stack size exceeded", "<input>:1:"),
    ],
)  # fmt: skip
def test_what_was_thrown_is_told_with_its_place(
    evaluator: Evaluator, code: str, name: str, message: str, place: str
) -> None:
    outcome = evaluator.evaluate(code)
    assert (outcome.ended, outcome.name) == ("error", name)
    assert message in outcome.message
    assert place in outcome.stack


def test_a_promise_that_nothing_settles_is_told(evaluator: Evaluator) -> None:
    assert evaluator.evaluate("console.log('waits'); new Promise(() => {})") == Outcome("pending", "waits\n")
    assert evaluator.evaluate("(async () => { await new Promise(() => {}) })()").ended == "pending"


@pytest.mark.parametrize(
    "name",
    [
        "require",
        "module",
        "process",
        "fetch",
        "setTimeout",
        "os",
        "std",
        "Deno",
        "emit",
        "characters",
        "print",
        "Worker",
    ],
)
def test_there_is_no_way_out_to_name(evaluator: Evaluator, name: str) -> None:
    assert value(evaluator, f"typeof {name}") == "undefined"


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "./prelude.js", "fs", "node:fs", "os", "std", "data:text/javascript,1"]
)
def test_no_module_can_be_imported(evaluator: Evaluator, path: str) -> None:
    outcome = evaluator.evaluate(f"import({path!r})")
    assert (outcome.ended, outcome.name) == ("error", "ReferenceError")
    assert evaluator.evaluate(f"import x from {path!r}").name == "SyntaxError"


# ---------------------------------------------------------------- programs that take too much


@pytest.mark.parametrize(
    "code",
    [
        "for (;;);",
        "try { for (;;); } catch { 'caught' } finally { for (;;); }",
        "/^(a+)+$/.test('a'.repeat(60) + 'b')",
        "(function again() { Promise.resolve().then(again) })()",
        "queueMicrotask(() => { for (;;); }); 1",
        "new Proxy({}, { ownKeys() { for (;;); } })",
        "({ get then() { for (;;); } }); const p = Promise.resolve({ get then() { for (;;); } }); p",
        "let b = 3n; for (;;) b = (b * b) % (2n ** 400000n)",
        "[].concat(Array(2e9).fill(0))",
        "throw new Proxy({}, { ownKeys() { for (;;); } })",
    ],
)
def test_a_program_without_an_end_is_ended(evaluator: Evaluator, code: str) -> None:
    for _ in range(4):
        began = time.monotonic()
        outcome = evaluator.evaluate("console.log('begun');" + code)
        assert time.monotonic() - began < SECONDS + GRACE_SECONDS
        if outcome.printed:
            # One that the machine let begin only after its time has printed nothing.
            break
    assert outcome.printed == "begun\n"
    # A memory limit may come first; an end there must be.
    assert outcome.ended == "timeout" or outcome.message in ("out of memory", "null")


@pytest.mark.parametrize(
    "code",
    [
        "let s = 'x'; for (;;) s += s",
        "'x'.repeat(2 ** 28)",
        "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))",
        "new Uint8Array(2 ** 31)",
        "new ArrayBuffer(1e12)",
        "new SharedArrayBuffer(1e9)",
        "new Array(2 ** 32 - 1).fill(0)",
        "const wide = new Float64Array(4e7)",
        "'ab'.padEnd(2 ** 29)",
        "JSON.parse('['.repeat(1e6))",
        "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        "2n ** 100000000n",
    ],
)
def test_a_program_that_wants_too_much_memory_fails_and_nothing_else_does(evaluator: Evaluator, code: str) -> None:
    outcome = evaluator.evaluate("console.log('begun');" + code)
    assert outcome.ended == "error", outcome
    assert outcome.printed == "begun\n"
    assert value(evaluator, "1 + 1") == "2"


def test_memory_taken_in_small_pieces_ends_too(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate("const all = []; for (;;) all.push({})")
    assert outcome.ended in ("error", "timeout")
    # The engine has no memory left to say so in words.
    assert outcome.ended == "timeout" or outcome.message in ("out of memory", "null")


def test_memory_may_run_out_and_be_given_back(evaluator: Evaluator) -> None:
    code = "let s = 'x'; try { for (;;) s = s.repeat(16) } catch (e) { s = null; e.message }"
    assert value(evaluator, code) in ("out of memory", "invalid string length", "string too long")


# ---------------------------------------------------------------- output


def test_output_is_cut_where_its_room_ends(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate("for (let n = 0; n < 100000; n++) console.log(n); 'x'.repeat(1e6)")
    assert outcome.printed.startswith("0\n1\n2\n")
    assert (len(outcome.printed), outcome.printed_cut) == (CHARACTERS, True)
    assert (outcome.text, outcome.text_cut) == ("x" * CHARACTERS, True)


def test_a_line_longer_than_the_room_is_cut_in_itself(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate("console.log('a'.repeat(3000)); console.log('b'.repeat(1e7)); console.log('c')")
    assert outcome.printed == "a" * 3000 + "\n" + "b" * 999
    assert outcome.printed_cut


def test_output_of_exactly_the_room_is_whole(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate(f"console.log('a'.repeat({CHARACTERS - 1})); 'b'.repeat({CHARACTERS})")
    assert (len(outcome.printed), outcome.printed_cut) == (CHARACTERS, False)
    assert (len(outcome.text), outcome.text_cut) == (CHARACTERS, False)


def test_a_cut_goes_through_no_character(evaluator: Evaluator) -> None:
    assert value(evaluator, f"'x' + '😀'.repeat({CHARACTERS})") == "x" + "😀" * ((CHARACTERS - 1) // 2)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("'\\ud800'", "\ufffd"),
        ("'a\\udc00b'", "a\ufffdb"),
        ("'\\ud83d' + '\\ude00'", "😀"),
        ("['\\ud800']", '["\\ud800"]'),
        ("'\\0\\x1b[31mred\\x07\\r\\u2028'", "\0\x1b[31mred\x07\r\u2028"),
    ],
)
def test_any_text_comes_back_as_text(evaluator: Evaluator, code: str, shown: str) -> None:
    outcome = evaluator.evaluate(f"console.log({code}); {code}")
    assert outcome.text == shown
    assert outcome.printed == shown + "\n"
    shown.encode()


def test_halves_of_characters_printed_in_two_pieces_stay_apart(evaluator: Evaluator) -> None:
    assert evaluator.evaluate("console.log('\\ud83d'); console.log('\\ude00')").printed == "\ufffd\n\ufffd\n"


def test_code_with_half_a_character_reaches_the_engine_as_it_is(evaluator: Evaluator) -> None:
    assert value(evaluator, "'\ud800'.length + '\ud800'.charCodeAt(0).toString(16)") == "1d800"


@pytest.mark.parametrize("size", [8_000, 200_000])
def test_long_programs_are_taken_whole(evaluator: Evaluator, size: int) -> None:
    code = f"'{'é' * (size - 9)}'.length"
    assert value(evaluator, code) == str(size - 9)


# ---------------------------------------------------------------- programs that bend what shows them


@pytest.mark.parametrize(
    "bend",
    [
        "JSON.stringify = () => 'bent'; JSON.parse = null; JSON = null",
        "Array.prototype.toJSON = Object.prototype.toJSON = String.prototype.toJSON = () => 'bent'",
        "Array.prototype[Symbol.iterator] = null; String.prototype[Symbol.iterator] = null",
        "for (const name of ['slice', 'charCodeAt', 'indexOf', 'toString', 'valueOf']) String.prototype[name] = null",
        "for (const name of ['push', 'join', 'forEach', 'map', 'slice']) Array.prototype[name] = () => { throw 1 }",
        "Reflect = null; Function.prototype.call = Function.prototype.apply = () => 'bent'",
        "for (const name of ['value', 'get', 'ended', 'how', 'what', 'put', 'text', 'full', 'above', 'enumerable'])"
        "  Object.defineProperty(Object.prototype, name, { __proto__: null, set() { throw 1 }, get: () => 'bent' })",
        "for (const name of [0, 1, 2]) Object.defineProperty(Array.prototype, name, { set() { throw 1 } })",
        "Object.prototype.value = 5; Object.prototype.pending = true",
        "globalThis.eval = globalThis.Promise = globalThis.Error = null",
        "Promise.prototype.then = () => 'bent'; Promise.prototype.constructor = null",
        "Object.defineProperty(Object.prototype, Symbol.toStringTag, { get() { throw 1 } })",
        "Symbol.prototype.toString = BigInt.prototype.toString = Number.prototype.toString = () => 'bent'",
        "Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = Infinity",
        "Object.getOwnPropertyDescriptor = Object.getPrototypeOf = Array.isArray = Error.isError = () => { throw 1 }",
    ],
)
def test_what_a_program_redefines_changes_its_own_objects_only(evaluator: Evaluator, bend: str) -> None:
    outcome = evaluator.evaluate(f"const log = console.log; {bend}; log('seen', [1]); ({{a: [1, 'x'], b: 2n}})")
    assert outcome.ended == "value", outcome
    assert outcome.printed == "seen [1]\n"
    assert outcome.text == '{"a": [1, "x"], "b": 2n}'
    thrown = evaluator.evaluate(f"{bend}; throw 7")
    assert (thrown.ended, thrown.message) == ("error", "7")


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("const o = {}; o.self = o; [o, o]", '[{"self": [circular]}, {"self": [circular]}]'),
        ("let d = []; for (let n = 0; n < 1e5; n++) d = [d]; d", "[" * 25 + "deeper" + "]" * 25),
        ("new Proxy({}, { ownKeys() { throw 1 } })", "{[threw when it was looked at]"),
        ("new Proxy([], { getOwnPropertyDescriptor() { throw 1 } })", "[]"),
        ("new Proxy(function f() {}, { get() { throw 1 } })", "[function"),
        ("const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); proxy", "[threw when it was looked at]"),
        ("({ toJSON() { throw 1 }, toString() { throw 2 }, [Symbol.toPrimitive]() { throw 3 } })", '{"toJSON": ['),
        ("({ then: 5 })", '{"then": 5}'),
        ("({ get constructor() { throw 1 } })", '{"constructor": [accessor]}'),
        ("Object.setPrototypeOf({ a: 1 }, { get constructor() { throw 1 } })", '{"a": 1}'),
        ("globalThis", "global {"),
        ("[RegExp.prototype, Date.prototype, Map.prototype, Number.prototype]", "["),
        ("Array(4294967295)", "[<empty>, <empty>"),
        ("const e = new Error; e.message = { get x() { throw 1 } }; [e]", '[[Error: {"x": [accessor]}]]'),
        ("class A { constructor() { return new Proxy(this, {}) } }; new A", "A {}"),
        ("const p = Promise.resolve(1); Object.defineProperty(p, 'constructor', { get() { throw 1 } }); p", "Promise {}"),
    ],
)  # fmt: skip
def test_odd_values_are_shown_without_running_their_code(evaluator: Evaluator, code: str, shown: str) -> None:
    assert value(evaluator, code).startswith(shown)


@pytest.mark.parametrize(
    "code",
    [
        "throw new Proxy({}, { getOwnPropertyDescriptor() { throw 1 } })",
        "throw Object.defineProperty(new Error('a'), 'message', { get() { throw 1 } })",
        "throw Object.defineProperty(new Error('a'), 'stack', { get() { throw 1 } })",
        "throw Object.defineProperty(new Error('a'), 'name', { get() { throw 1 } })",
        "throw Object.setPrototypeOf(new Error('a'), null)",
        "throw new Error('x'.repeat(1e6))",
    ],
)
def test_odd_errors_are_told_all_the_same(evaluator: Evaluator, code: str) -> None:
    outcome = evaluator.evaluate(code)
    assert outcome.ended == "error"
    assert len(outcome.message) <= CHARACTERS


def test_the_console_may_be_replaced(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate("console.log('before'); console = { log: () => 1 }; console.log('after'); 2")
    assert (outcome.printed, outcome.text) == ("before\n", "2")


def test_the_function_that_runs_it_gives_a_program_nothing(evaluator: Evaluator) -> None:
    """A stack's call sites hand out the functions on the stack, the prelude's among them."""
    code = """
        const found = [];
        Error.prepareStackTrace = (error, sites) => sites.forEach((site) => found.push(site.getFunction()));
        new Error('look').stack;
        for (const use of found) for (const step of ['run', 'tell']) {
            try { use(step, '"console.log(1)"') } catch {}
        }
        'still here'
    """
    outcome = evaluator.evaluate(code)
    # It may speak twice or run itself again, to no end; it cannot reach further than its own process.
    assert outcome.ended in ("value", "error", "timeout")
    assert value(evaluator, "1 + 1") == "2"


# ---------------------------------------------------------------- the host's side


def test_a_child_that_died_while_it_waited_is_replaced() -> None:
    evaluator = Evaluator()
    evaluator.prepare()
    assert evaluator._spare is not None
    evaluator._spare._process.kill()
    evaluator._spare._process.wait()
    try:
        assert value(evaluator, "1 + 1") == "2"
    finally:
        evaluator.close()


def test_every_child_is_ended_and_reaped(evaluator: Evaluator) -> None:
    seen = []
    for code in ("1", "for (;;);", "throw 1"):
        evaluator.prepare()
        assert evaluator._spare is not None
        seen.append(evaluator._spare._process)
        evaluator.evaluate(code)
    assert all(process.returncode is not None for process in seen)
    assert not any(Path(f"/proc/{process.pid}").exists() for process in seen)


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("import os\nos.write(1, b'[\"ready\"]\\n' + b'[1, 2]\\n')", "died"),
        ("import os\nos.write(1, b'[\"ready\"]\\n' + b'[' * 100000 + b'\\n')", "died"),
        ("import os\nos.write(1, b'[\"ready\"]\\n' + b'[\"value\", \"evil\", \"x\", false]\\n')", "died"),
        ("import os\nos.write(1, b'[\"ready\"]\\n')\nwhile True: os.write(1, b'x' * 65536)", "died"),
        ("import os\nos.write(1, b'[\"ready\"]\\n')\nwhile True: os.write(1, b'[\"printed\", \"x\", false]\\n')", "died"),
        ("import os\nos.write(1, b'[\"ready\"]\\n\\xff\\xfe\\n')", "died"),
        ("import os, time\nos.write(1, b'[\"ready\"]\\n')\ntime.sleep(60)", "timeout"),
        ("import os, sys\nos.write(1, b'[\"ready\"]\\n'); sys.stdin.buffer.read()", "died"),
        ("import os, time\nos.write(1, b'[\"ready\"]\\n[\"value\", \"string\", \"' + b'x' * 9000 + b'\", false]\\n')\ntime.sleep(60)", "value"),
    ],
    ids=["no message", "nesting", "unknown type", "endless line", "endless lines", "no text", "silence", "end", "long"],
)  # fmt: skip
def test_whatever_a_child_that_was_taken_over_says_is_checked_and_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, ended: str
) -> None:
    (tmp_path / "child.py").write_text(script)
    monkeypatch.setattr(module, "_HERE", tmp_path)
    if ended != "timeout":
        # On a busy machine it takes a while to say too much.
        monkeypatch.setattr(module, "SECONDS", 60.0)
    evaluator = Evaluator()
    try:
        outcome = evaluator.evaluate("1")
    finally:
        evaluator.close()
    assert outcome.ended == ended
    assert len(outcome.text) <= CHARACTERS and len(outcome.printed) <= CHARACTERS


def test_a_child_that_does_not_start_is_told_as_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text("raise SystemExit(1)")
    monkeypatch.setattr(module, "_HERE", tmp_path)
    with pytest.raises(EvaluatorUnavailable):
        Evaluator().evaluate("1")
