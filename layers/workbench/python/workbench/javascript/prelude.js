// Runs before the program, in the same realm: gives it a console and afterwards shows what it left as its result.
//
// Everything needed later is taken here, first, so that a program that redefines JSON, console or a prototype changes
// its own objects and not what is told of it. Only what is taken here, own properties and string concatenation are
// used: no method is looked up, no iterator is run, no property is set that an object does not have already.
// `emit` hands one message to the host, as JSON texts; what is concatenated goes through `stringify`, because the host
// takes no string that is still in pieces.
(function (global) {
  "use strict";
  const { emit, characters } = global;
  delete global.emit;
  delete global.characters;

  const { stringify, parse } = JSON;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { isArray } = Array;
  const { isError } = Error;
  const { hasOwn } = Object;
  const { isFinite } = Number;
  const { round } = Math;
  // Called by another name, it evaluates in the global scope.
  const evaluate = global.eval;
  const getter = (prototype, name) => getOwnPropertyDescriptor(prototype, name).get;
  const slice = String.prototype.slice;
  const codeAt = String.prototype.charCodeAt;
  const then = Promise.prototype.then;
  const objectPrototype = Object.prototype;
  const sourceOf = Function.prototype.toString;
  const isoDate = Date.prototype.toISOString;
  const dateValue = Date.prototype.getTime;
  const symbolText = Symbol.prototype.toString;
  const arrayName = getter(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
  const arrayLength = getter(getPrototypeOf(Uint8Array.prototype), "length");
  const bufferBytes = getter(ArrayBuffer.prototype, "byteLength");
  const patternSource = getter(RegExp.prototype, "source");
  const patternFlags = getter(RegExp.prototype, "flags");
  const mapSize = getter(Map.prototype, "size");
  const mapEach = Map.prototype.forEach;
  const setSize = getter(Set.prototype, "size");
  const setEach = Set.prototype.forEach;
  const errorStack = getter(Error.prototype, "stack");
  const patternPrototype = RegExp.prototype;
  const tag = Symbol.toStringTag;
  const box = (maker) => ({ name: maker.name, prototype: maker.prototype, unbox: maker.prototype.valueOf });
  const boxes = [box(Number), box(String), box(Boolean), box(BigInt)];
  const numberOf = Number;
  const DEEPEST = 24;
  const NONE = {};

  /** What `method` gives for `value`, or NONE where it is not of the kind that the method is for. */
  function ask(method, value) {
    try {
      return apply(method, value, []);
    } catch {
      return NONE;
    }
  }

  /** Text up to a number of characters; `full` is set by the first that finds no room. */
  function paper(room) {
    let full = false;
    let written = "";
    return {
      put: (text) => {
        if (full) return;
        const left = room - written.length;
        if (text.length > left) {
          full = true;
          // Half a character is none.
          const last = left > 0 ? apply(codeAt, text, [left - 1]) : 0;
          text = apply(slice, text, [0, last >= 0xd800 && last < 0xdc00 ? left - 1 : left]);
        }
        written += text;
      },
      full: () => full,
      text: () => written,
    };
  }

  /** A data property's own value; NONE for accessors, which would run code of the program, and for none at all. */
  function own(value, name) {
    const found = getOwnPropertyDescriptor(value, name);
    return found !== undefined && hasOwn(found, "value") ? found.value : NONE;
  }

  function nameOf(maker) {
    const name = typeof maker === "function" ? own(maker, "name") : NONE;
    return typeof name === "string" ? name : "";
  }

  function className(value) {
    const prototype = getPrototypeOf(value);
    if (prototype === null) return "";
    if (prototype === objectPrototype) return tagOf(value);
    return nameOf(own(prototype, "constructor")) || tagOf(value);
  }

  /** The name that the language gives to what has no constructor: Generator, Math, JSON. */
  function tagOf(value) {
    for (let holder = value, up = 0; holder !== null && up < 4; holder = getPrototypeOf(holder), up += 1) {
      const text = own(holder, tag);
      if (typeof text === "string") return text;
    }
    return "";
  }

  function quoted(sheet, text) {
    sheet.put(stringify(apply(slice, text, [0, characters + 1])));
  }

  /** Plain data is shown as JSON; what JSON cannot say, as a console shows it. `above` is the chain of containers. */
  function show(sheet, value, above, depth) {
    switch (typeof value) {
      case "string":
        return quoted(sheet, value);
      case "number":
        return sheet.put(value === 0 && 1 / value < 0 ? "-0" : `${value}`);
      case "bigint":
        return sheet.put(`${value}n`);
      case "symbol":
        return sheet.put(apply(symbolText, value, []));
      case "function":
        return showFunction(sheet, value);
      case "object":
        return value === null ? sheet.put("null") : showObject(sheet, value, above, depth);
      default:
        return sheet.put(`${value}`);
    }
  }

  function showFunction(sheet, value) {
    const source = ask(sourceOf, value);
    const kind = typeof source === "string" && apply(slice, source, [0, 5]) === "class" ? "class" : "function";
    sheet.put(`[${kind} ${nameOf(value) || "without a name"}]`);
  }

  function showObject(sheet, value, above, depth) {
    for (let outer = above; outer !== null; outer = outer.above) {
      if (outer.value === value) return sheet.put("[circular]");
    }
    if (depth >= DEEPEST) return sheet.put("[deeper]");
    const chain = { value, above };
    const inner = (item) => show(sheet, item, chain, depth + 1);
    if (isArray(value)) return showItems(sheet, "", value.length, value, inner);
    const typed = ask(arrayName, value);
    if (typeof typed === "string") return showItems(sheet, `${typed} `, ask(arrayLength, value), value, inner);
    if (showKnown(sheet, value, inner)) return undefined;
    return showProperties(sheet, value, inner);
  }

  function showItems(sheet, label, length, value, inner) {
    sheet.put(`${label}[`);
    for (let index = 0; index < length && !sheet.full(); index += 1) {
      if (index > 0) sheet.put(", ");
      const item = own(value, index);
      if (item === NONE) sheet.put("<empty>");
      else inner(item);
    }
    sheet.put("]");
  }

  /** The language's own kinds of objects; false for others. */
  function showKnown(sheet, value, inner) {
    const time = ask(dateValue, value);
    if (time !== NONE) {
      sheet.put(isFinite(time) ? apply(isoDate, value, []) : "Invalid Date");
      return true;
    }
    if (showError(sheet, value, inner)) return true;
    if (ask(mapSize, value) !== NONE) return showEach(sheet, "Map", mapEach, value, inner, true);
    if (ask(setSize, value) !== NONE) return showEach(sheet, "Set", setEach, value, inner, false);
    const source = value === patternPrototype ? NONE : ask(patternSource, value);
    if (source !== NONE) {
      sheet.put(`/${source}/${ask(patternFlags, value)}`);
      return true;
    }
    const bytes = ask(bufferBytes, value);
    if (bytes !== NONE) {
      sheet.put(`ArrayBuffer of ${bytes} bytes`);
      return true;
    }
    for (let index = 0; index < boxes.length; index += 1) {
      const primitive = ask(boxes[index].unbox, value);
      if (primitive !== NONE && value !== boxes[index].prototype) {
        sheet.put(`${boxes[index].name} `);
        inner(primitive);
        return true;
      }
    }
    return false;
  }

  function errorName(error) {
    const name = own(error, "name");
    return typeof name === "string" ? name : className(error) || "Error";
  }

  function errorMessage(error) {
    const message = own(error, "message");
    return message === NONE ? "" : message;
  }

  function showError(sheet, value, inner) {
    if (!isError(value)) return false;
    sheet.put(`[${errorName(value)}: `);
    inner(errorMessage(value));
    sheet.put("]");
    return true;
  }

  function showEach(sheet, label, each, value, inner, keyed) {
    sheet.put(`${label} {`);
    let first = true;
    apply(each, value, [
      (item, key) => {
        if (sheet.full()) return;
        if (!first) sheet.put(", ");
        first = false;
        if (keyed) {
          inner(key);
          sheet.put(" => ");
        }
        inner(item);
      },
    ]);
    sheet.put("}");
    return true;
  }

  function showProperties(sheet, value, inner) {
    const label = className(value);
    sheet.put(label === "" ? "{" : `${label} {`);
    const keys = ownKeys(value);
    let first = true;
    for (let index = 0; index < keys.length && !sheet.full(); index += 1) {
      const key = keys[index];
      const found = getOwnPropertyDescriptor(value, key);
      if (found === undefined || !found.enumerable) continue;
      if (!first) sheet.put(", ");
      first = false;
      if (typeof key === "symbol") sheet.put(`[${apply(symbolText, key, [])}]`);
      else quoted(sheet, key);
      sheet.put(": ");
      if (hasOwn(found, "value")) inner(found.value);
      else sheet.put("[accessor]");
    }
    sheet.put("}");
  }

  /** A value as text at the top: strings as they are. A proxy of the program may throw whatever it likes. */
  function showTop(sheet, value) {
    try {
      if (typeof value === "string") sheet.put(value);
      else show(sheet, value, null, 0);
    } catch {
      sheet.put("[threw when it was looked at]");
    }
  }

  // ------------------------------------------------------------ console

  let room = characters;
  let full = false;

  function print(args, label) {
    // Past the room nothing is sent any more; the last message said so.
    if (full) return;
    const sheet = paper(room);
    sheet.put(label);
    const next = typeof args[0] === "string" && args.length > 1 ? format(sheet, args) : 0;
    for (let index = next; index < args.length && !sheet.full(); index += 1) {
      if (index > 0) sheet.put(" ");
      showTop(sheet, args[index]);
    }
    sheet.put("\n");
    full = sheet.full();
    room -= sheet.text().length;
    emit(`"printed"`, stringify(sheet.text()), full ? "true" : "false");
  }

  /** `%s %d %i %f %j %o %O %c %%` of the first argument; the number of arguments that it used up. */
  function format(sheet, args) {
    const text = args[0];
    let next = 1;
    let start = 0;
    for (let index = 0; index + 1 < text.length; index += 1) {
      if (text[index] !== "%") continue;
      const kind = text[index + 1];
      let shown = null;
      if (kind === "%") shown = "%";
      else if (next < args.length && kind === "c") shown = "";
      else if (next < args.length && (kind === "d" || kind === "i" || kind === "f")) shown = numeric(kind, args[next]);
      else if (next >= args.length || (kind !== "s" && kind !== "j" && kind !== "o" && kind !== "O")) continue;
      sheet.put(apply(slice, text, [start, index]));
      if (shown !== null) sheet.put(shown);
      else showTop(sheet, args[next]);
      if (kind !== "%") next += 1;
      index += 1;
      start = index + 1;
    }
    sheet.put(apply(slice, text, [start]));
    return next;
  }

  function numeric(kind, value) {
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value !== "number" && typeof value !== "string") return "NaN";
    const number = numberOf(value);
    return `${kind === "i" && isFinite(number) ? (number < 0 ? -round(-number - 0.5) : round(number - 0.5)) : number}`;
  }

  const log = (...args) => print(args, "");
  const assert = (held, ...args) => {
    if (!held) print(args, "Assertion failed: ");
  };
  const groupEnd = () => undefined;
  const console = { log, info: log, debug: log, warn: log, error: log, trace: log, dir: log, table: log, group: log };
  console.assert = assert;
  console.groupEnd = groupEnd;
  defineProperty(global, "console", { value: console, writable: true, configurable: true, enumerable: false });

  // ------------------------------------------------------------ the program and its result

  let ended = { how: "value", what: undefined };

  function settle(value) {
    ended = { how: "value", what: value };
    if (typeof value !== "object" || value === null) return;
    const fulfilled = (result) => {
      ended = { how: "value", what: result };
    };
    const rejected = (error) => {
      ended = { how: "error", what: error };
    };
    try {
      apply(then, value, [fulfilled, rejected]);
      ended = { how: "pending", what: undefined };
    } catch {
      // No promise, or one that the program has bent: a value like any other.
    }
  }

  function run(code) {
    try {
      settle(evaluate(parse(code)));
    } catch (error) {
      ended = { how: "error", what: error };
    }
  }

  const short = (text) => stringify(apply(slice, text, [0, characters]));

  function tellError(error) {
    let name = "";
    let message = "";
    let stack = "";
    if (isError(error)) {
      name = errorName(error);
      const sheet = paper(characters);
      showTop(sheet, errorMessage(error));
      message = sheet.text();
      const lines = ask(errorStack, error);
      if (typeof lines === "string") stack = lines;
    } else {
      const sheet = paper(characters);
      showTop(sheet, error);
      message = sheet.text();
    }
    emit(`"error"`, short(name), short(message), short(stack));
  }

  function typeOf(value) {
    if (value === null) return "null";
    try {
      return isArray(value) ? "array" : typeof value;
    } catch {
      // A proxy that was revoked.
      return typeof value;
    }
  }

  function tell() {
    if (ended.how === "error") return tellError(ended.what);
    if (ended.how === "pending") return emit(`"pending"`);
    const value = ended.what;
    const sheet = paper(characters);
    showTop(sheet, value);
    return emit(`"value"`, stringify(typeOf(value)), stringify(sheet.text()), sheet.full() ? "true" : "false");
  }

  /** For the host: "run" with the code as a JSON string, "tell" once no job is left. */
  return (step, code) => (step === "run" ? run(code) : tell());
})(globalThis);
