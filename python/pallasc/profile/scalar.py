"""Translates the scalar part of a schedule, instruction by instruction, into Python expressions.

Scalar (s) and predicate (p) registers, SMEM, branches, copies, semaphores and matmuls are followed;
vector values are not, but for numbers that are given. Each instruction becomes an `Action` whose
values are Python expressions over

- `V_name`, a value by its name in the schedule (%s123_s5 is V_s123_s5); numbers are 32-bit ints;
- `w(x)`, x wrapped to 32 bits with sign; `M`, 2**32 - 1;
- `read(address, name)`, a word of SMEM; `pop()`, the next result of a division;
- `taken(name)`, the next number that a vector gives; `f(x)`, the float32 of a word.

An instruction that is not known is an entry in `unhandled` and its result 0: a run that executes it
is not complete.
"""

import collections
import dataclasses
import re
import struct

WORD_MASK = 0xFFFFFFFF


def wrapped(number):
    """A number as a 32-bit register holds it, with sign."""
    number &= WORD_MASK
    return number - 0x100000000 if number & 0x80000000 else number


def float_of(word):
    """The float32 of a 32-bit word."""
    return struct.unpack("<f", struct.pack("<I", word & WORD_MASK))[0]


@dataclasses.dataclass(slots=True)
class Action:
    """What an instruction does.

    Attributes:
      kind: "set" (target = value), "alias" (the same without an instruction), "phi" (target is what
        the predecessor left in the register), "branch" (to region `target`), "store" (address,
        value in SMEM), "divide" (a call that queues results), "delay" (cycles), "matmul" (target:
        dtype, unit), "assert" (target: text), "copy" (target: "hbm_to_vmem", ...; size in
        granules, semaphore, source, destination; of a copy to SMEM the source is (operand of the
        call, granules from its beginning) or None), "wait" (semaphore, size), "credit"
        (semaphore, amount).
      predicate: expression, None if unconditional.
      target: see kind.
      values: expressions.
    """

    kind: str
    predicate: str | None
    target: object
    values: tuple = ()

    def names(self):
        """Names of the values that it reads."""
        read = {name for text in (self.predicate, *self.values) if text for name in _names(text)}
        return read


def _names(text):
    return re.findall(r"V_(\w+)", text)


# Opcode without its dtype: the expression of signed ints, {0} and so on being operands.
_EXPRESSIONS = {
    "smov": "{0}",
    "pmov": "{0}",
    "sadd": "w({0}+{1})",
    "ssub": "w({0}-{1})",
    "smul": "w({0}*{1})",
    "sand": "({0}&{1})",
    "sor": "({0}|{1})",
    "sxor": "({0}^{1})",
    "sshll": "w({0}<<({1}&31))",
    "sshllo": "w(({0}<<({1}&31))|((1<<({1}&31))-1))",  # fills with ones: masks of sublanes
    "sshrl": "w(({0}&M)>>({1}&31))",
    "sshra": "({0}>>({1}&31))",
    "smin": "min({0},{1})",
    "smax": "max({0},{1})",
    "smulhi": "w(({0}*{1})>>32)",
    "scvt": "0",  # floats are not followed
    "sclz": "(32-({0}&M).bit_length())",
    "sc": "((({0}&M)+({1}&M))>M)",  # the carry
    "por": "({0} or {1})",
    "pand": "({0} and {1})",
    "pnand": "(not ({0} and {1}))",
    "pnor": "(not ({0} or {1}))",
    "pxor": "(bool({0})!=bool({1}))",
    "pneg": "(not {0})",
    "scalar_select": "({1} if {0} else {2})",
}
# Where unsigned numbers need another one.
_UNSIGNED = {
    "smin": "w(min({0}&M,{1}&M))",
    "smax": "w(max({0}&M,{1}&M))",
    "smulhi": "w((({0}&M)*({1}&M))>>32)",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SPACE_OPCODE = re.compile(
    r"(?:scalar_lea|int_to_ptr|inlined_call_operand|scalar_parameter_address)\.(hbm|vmem|smem)\b"
)
_ALLOCATION = re.compile(r"#\w+")
_SMEM = re.compile(r"^\[smem:\[(.*?)\]\]\s*(.*)$")
# Control instructions: a new kind of these must not be passed over.
_CONTROL = re.compile(r"^(sbr|scall|sret|sst|sld|swait|dma)")
_FLOAT = re.compile(r"^-?(inf|nan|\d+\.\d|\d+e)")
_FLOAT_NUMBER = re.compile(r"\s*-?\d+(\.\d*)?(e[-+]?\d+)?\s*")
# Each allocation is given so large a part of the address space: VMEM has 2^18 units of 512 bytes,
# SMEM no more words. Some code keeps 16 times an address in 32 bits: 127 of them can be told apart.
_ADDRESS_BITS = 20
_HBM_SHIFT = 8  # of HBM a smaller part


class Translator:
    """Translates the instructions of a kernel.

    Attributes:
      unhandled: {what: count} of instructions that are not known.
      unknown: values that a run does not know: float and vector results.
      sources: {name: names} that a value also depends on, beyond its expression.
      operands: {index: (memory, address)} of the call's inputs; of a scalar the memory is "".
      stand_ins: addresses of allocations that the compiler reads where the predicate of a load
        that it moved up does not hold: what is read there is not used.
    """

    def __init__(self, bundles):
        self.unhandled = collections.Counter()
        self.unknown = set()
        self.sources = {}
        self.operands = {}
        self._operand_names = {}
        self._allocations = {}
        self._divisions = {}
        self._spaces = {}
        self._index(bundles)
        self.actions = [
            [action for item in bundle.instructions if (action := self._action(item))]
            for bundle in bundles
        ]
        self.stand_ins = {self._allocation(name) for name in _stand_ins(bundles)}

    # ---- where addresses lie

    def _index(self, bundles):
        """What makes each value, and what is stored to each spill slot."""
        self._made, self._spilt = {}, collections.defaultdict(list)
        for bundle in bundles:
            for item in bundle.instructions:
                if item.result and _is_scalar(item.result):
                    self._made[item.result] = item
                elif item.opcode == "sst" and "_spill" in item.text:
                    slot = re.search(r"smem:\[(.*?)\]\]", item.text)
                    values = re.findall(r"%(\w+)", item.text.split("]]")[-1])
                    if slot and values:
                        self._spilt[slot[1]].append(values[-1])

    def _space(self, operand, seen=()):
        """The memory that an address is in, "hbm", "vmem", "smem": from what made it, or None."""
        match = re.match(r"\s*%(\w+)", operand)
        if not match or match[1] in seen or len(seen) > 20:
            return None
        name = match[1]
        if name in self._spaces:
            return self._spaces[name]
        found = self._space_made(name, seen)
        if not seen:
            self._spaces[name] = found
        return found

    def _space_made(self, name, seen):
        """`_space` of a name: through copies, phis and spill slots."""
        item = self._made.get(name)
        if item is None:
            return None
        if match := _SPACE_OPCODE.match(item.opcode):
            return match[1]
        return _only({self._space(f"%{other}", (*seen, name)) for other in self._copied(item)})

    def _copied(self, item):
        """Names of which an instruction hands on one: copies, phis, selects, spill slots."""
        if item.opcode == "sld":
            slot = re.search(r"smem:\[(.*?)\]\]", item.rest)
            return self._spilt.get(slot[1], []) if slot else []
        moves = item.opcode.startswith(("smov", "sphi", "scalar_select"))
        return re.findall(r"%(s\w+)", item.rest) if moves else []

    def _origin(self, operand, seen=()):
        """(index, address) of the input of the call that an address is in, or None.

        The address as it is there: a copy takes 16 times that of an operand, in granules.
        """
        match = re.match(r"\s*%(\w+)", operand)
        if not match or match[1] in seen or len(seen) > 20:
            return None
        name = match[1]
        if name in self._operand_names:
            index = self._operand_names[name]
            return index, self.operands[index][1]
        item = self._made.get(name)
        if item is None:
            return None
        seen, rest = (*seen, name), item.split()[1]
        if item.opcode == "sshll.u32" and re.search(r", 4\s*$", rest):
            found = self._origin(rest, seen)
            return found and (found[0], wrapped(found[1] << 4))
        if item.opcode.startswith(("scalar_lea", "int_to_ptr")):
            return self._origin(rest, seen)
        return _only({self._origin(f"%{other}", seen) for other in self._copied(item)})

    def _allocation(self, name):
        """The address that an allocation is given."""
        number = self._allocations.setdefault(name, len(self._allocations) + 1)
        return number << _ADDRESS_BITS

    # ---- operands

    def _operand(self, text):
        """An operand as an expression: a value, an address, a number; 0 for what is none."""
        text = text.strip()
        if text.startswith("%"):
            match = re.match(r"%(\w+)(?:\s+(-?\d+)\s*$)?", text)
            return f"(V_{match[1]}+{match[2]})" if match[2] else f"V_{match[1]}"
        if text.startswith("["):
            return self._address(text[1 : text.rfind("]")])
        return str(_number(text))

    def _address(self, text):
        """An address `#allocation + $0x10 + %s1_s2` as an expression."""
        terms = []
        for term in text.split("+"):
            term = term.strip()
            if term.startswith("#"):
                terms.append(str(self._allocation(term)))
            elif match := re.match(r"\$(0x[0-9a-f]+)", term):
                terms.append(str(int(match[1], 16)))
            elif term.startswith("%"):
                terms.append(self._operand(term.split()[0]))
            else:
                terms.append(str(_number(term)))
        return f"({'+'.join(terms)})"

    # ---- instructions

    def _action(self, item):
        """The `Action` of an instruction, None if there is nothing to follow."""
        if not item.opcode or (item.opcode[0] == "v" and not _is_followed(item.opcode)):
            return None
        if select := self._conditional_move(item):
            return select
        predicate, rest = item.split()
        if predicate:
            negated, name = predicate
            predicate = f"not V_{name}" if negated else f"V_{name}"
        for prefix, handler in _HANDLERS.items():
            if item.opcode.startswith(prefix):
                return handler(self, item, predicate, rest)
        if not item.result or not _is_scalar(item.result):
            if _CONTROL.match(item.opcode):
                self.unhandled[item.opcode] += 1
            return None
        return self._value(item, predicate, rest)

    def _conditional_move(self, item):
        """`smov (%p, %a), b`: b where p holds, else a."""
        if not item.result or not item.opcode.startswith(("smov", "pmov")):
            return None
        match = re.match(r"^\((!?)%(\w+),\s*([^)]*)\)\s*,\s*(.*)$", item.rest)
        if not match:
            return None
        condition = f"not V_{match[2]}" if match[1] else f"V_{match[2]}"
        values = self._operand(match[4]), self._operand(match[3])
        return Action("set", None, item.result, (f"({values[0]} if {condition} else {values[1]})",))

    def _branch(self, item, predicate, rest):
        match = re.search(r"target = \$region(\d+)", rest)
        if not match:
            self.unhandled[f"{item.opcode} {rest[:30]}"] += 1
            return None
        return Action("branch", predicate, int(match[1]))

    def _wait(self, _item, predicate, rest):
        operands = [self._operand(part) for part in rest.split(",")]
        return Action("wait", predicate, None, (operands[0], (*operands, "0")[1]))

    def _copy(self, item, predicate, rest):
        """Of memory: source, size, destination, semaphore; `dma.general` may not say whence."""
        parts = [part.strip() for part in rest.split(",")]
        direction = item.opcode.partition(".")[2]
        if direction == "general":
            direction = self._direction(rest, parts)
        operands = [self._operand(part) for part in parts]
        size, flag = operands[1], operands[3] if len(parts) > 3 else "0"
        source, destination = operands[0], operands[2] if len(parts) > 2 else "0"
        if direction.endswith("to_smem"):
            origin = self._origin(parts[0])
            source = f"({origin[0]},{source}-{origin[1]})" if origin else "None"
        return Action("copy", predicate, direction, (size, flag, source, destination))

    def _direction(self, rest, parts):
        """Whence and whither a strided copy goes: as a comment says, or by its addresses."""
        if told := re.search(r"@(\w+)", rest):
            return told[1]
        spaces = [self._space(part) for part in (parts[0], *parts[2:3])]
        if len(spaces) == 2 and all(spaces):
            return f"{spaces[0]}_to_{spaces[1]}"
        self.unhandled["dma.general without direction"] += 1
        return "general"

    def _delay(self, _item, predicate, rest):
        return Action("delay", predicate, None, (self._operand(rest),))

    def _matmul(self, item, predicate, _rest):
        unit = re.search(r"mxu\d", item.text)
        dtype = re.search(r"\.(bf16|f32|s8|u8|s4|u4|f8\w*|s16|u16)\b", item.text)
        return Action("matmul", predicate, (dtype[1] if dtype else "?", unit[0] if unit else "?"))

    def _assert(self, item, predicate, _rest):
        return Action("assert", predicate, item.text[:60])

    def _credit(self, _item, predicate, rest):
        """`vsyncadd` after a wait takes off what was waited for, which the wait has done.

        Else code, and not a copy, adds to a semaphore.
        """
        parts = rest.split(",")
        amount = self._operand(parts[1]) if len(parts) > 1 else "0"
        if re.match(r"-\d+$|0$", amount):
            return None
        return Action("credit", predicate, None, (self._operand(parts[0]), amount))

    def _store(self, item, predicate, rest):
        match = _SMEM.match(rest)
        if not match:
            self.unhandled[f"{item.opcode} {rest[:30]}"] += 1
            return None
        return Action("store", predicate, None, (self._address(match[1]), self._operand(match[2])))

    def _divide(self, item, predicate, rest):
        """Queues quotient, remainder or both, which `spop.drf` takes."""
        parts = [part.strip() for part in rest.split(",")]
        left, right, wanted = self._operand(parts[0]), self._operand(parts[1]), parts[-1]
        if wanted not in _RESULTS:
            self.unhandled[f"{item.opcode} {wanted[:20]}"] += 1
        self._divisions[item.result] = (left, right)
        function = "divided" if ".s32" in item.opcode else "divided_unsigned"
        part = _RESULTS.get(wanted, "0:1")
        return Action("divide", predicate, None, (f"push({function}({left},{right})[{part}])",))

    def _pop(self, item, predicate, rest):
        """The result of a division; else a number of a vector."""
        match = re.match(r"\s*%(\w+)", rest)
        if match and match[1] in self._divisions:
            operands = " ".join(self._divisions[match[1]])
            self.sources[item.result] = _names(operands)
            return Action("set", predicate, item.result, ("pop()",))
        return Action("set", predicate, item.result, (f'taken("{item.result}")',))

    def _load(self, item, predicate, rest):
        match = re.match(r"^\[smem:\[(.*?)\]\]", rest)
        if match:
            value = f'read({self._address(match[1])},"{item.result}")'
        else:
            value = "0"
            self.unknown.add(item.result)
        return Action("set", predicate, item.result, (value,))

    def _phi(self, item, _predicate, rest):
        self.sources[item.result] = re.findall(r"%(\w+)", rest)
        return Action("phi", None, item.result)

    def _alias(self, item, predicate, rest):
        return Action("alias", predicate, item.result, (self._operand(rest.split(",")[0]),))

    def _call_operand(self, item, predicate, rest):
        """An operand of the kernel's call: its address; of a scalar, which has none, its value."""
        space = item.opcode.partition(".")[2]
        address = self._allocation(f"#operand {item.result}")
        address = address >> _HBM_SHIFT if "hbm" in item.opcode else address
        value = str(address)
        if index := re.search(r"index: (\d+), kind: input", item.text):
            self.operands[int(index[1])] = (space, address)
            self._operand_names[item.result] = int(index[1])
            if not space:
                value = f'read({address},"{item.result}")'
        return Action("set", predicate, item.result, (value,))

    def _value(self, item, predicate, rest):
        """An arithmetic instruction: a row of _EXPRESSIONS, a comparison, an address."""
        parts = [part for part in re.split(r",(?![^\[]*\])", rest) if part.strip()]
        operands = [self._operand(part) for part in parts]
        base, _, suffix = item.opcode.partition(".")
        if base == "scmp" and ".f32" in item.opcode and (text := _float_comparison(suffix, parts)):
            return Action("set", predicate, item.result, (text,))
        text = _expression(base, suffix, operands)
        if text is None:
            self.unhandled[item.opcode] += 1
        is_float = ".f32" in item.opcode or (parts and _FLOAT.match(parts[0].strip()))
        if text is None or (is_float and base != "scalar_lea"):
            self.unknown.add(item.result)
        return Action("set", predicate, item.result, (text or "0",))


def _expression(base, suffix, operands):
    """The expression of an opcode and its operands, None if it is not known."""
    is_signed = "s32" in suffix
    if base == "scalar_lea":
        return f"({'+'.join(operands)})"
    if base == "scmp":
        sign = _COMPARISONS.get(suffix.partition(".")[0])
        form = "({0}%s{1})" if is_signed or sign in ("==", "!=") else "(({0}&M)%s({1}&M))"
        form = form % sign if sign else None
    else:
        form = _EXPRESSIONS.get(base)
        form = form if is_signed else _UNSIGNED.get(base, form)
    try:
        return form.format(*operands) if form else None
    except IndexError:
        return None


def _float_comparison(suffix, parts):
    """The expression of a comparison of float32 with registers or numbers; None for another."""
    sign, numbers = _COMPARISONS.get(suffix.partition(".")[0]), []
    for part in parts:
        if match := re.fullmatch(r"\s*%(\w+)\s*", part):
            numbers.append(f"f(V_{match[1]})")
        elif re.fullmatch(_FLOAT_NUMBER, part):
            numbers.append(f"{float(part)!r}")
    return f"({numbers[0]}{sign}{numbers[1]})" if sign and len(numbers) == 2 else None


def _stand_ins(bundles):
    """Allocations that are in nothing but selects, beside one that is elsewhere too."""
    choices, named = [], set()
    for bundle in bundles:
        for item in bundle.instructions:
            found = set(_ALLOCATION.findall(item.text))
            if item.opcode == "scalar_select":
                choices.append(found)
            else:
                named |= found
    alone = [choice - named for choice in choices]
    return sorted({name for names in alone if len(names) == 1 for name in names})


def _only(found):
    """The one element of a set beside None; None if there is none, or several."""
    found = found - {None}
    return found.pop() if len(found) == 1 else None


def _is_scalar(name):
    return re.match(r"[sp]\d+_", name) is not None


def _is_followed(opcode):
    """Whether an opcode that begins with v is followed: matmuls, delays, semaphores."""
    return "vmatmul" in opcode or opcode in ("vdelay", "vsyncadd")


def _number(text):
    """The int at the start of an operand, 0 where there is none."""
    try:
        return wrapped(int(text, 0))
    except ValueError:
        match = re.match(r"-?\d+", text)
        return int(match[0]) if match else 0


def _nothing(_translator, _item, _predicate, _rest):
    return None


# By the beginning of the opcode; the first that fits.
_HANDLERS = {
    "sbr.rel": Translator._branch,
    "dma.done": Translator._wait,
    "dma.smem_to_host": _nothing,
    "dma.": Translator._copy,
    "vdelay": Translator._delay,
    "vmatmul": Translator._matmul,
    "shalt.err": Translator._assert,
    "vsyncadd": Translator._credit,
    "shalt": _nothing,
    "sfence": _nothing,
    "sst": Translator._store,
    "sdivrem": Translator._divide,
    "spop": Translator._pop,
    "sld": Translator._load,
    "sphi": Translator._phi,
    "int_to_ptr": Translator._alias,
    "inlined_call_operand": Translator._call_operand,
    "scalar_parameter_address": Translator._call_operand,
}

# The results of a division, as a slice of (quotient, remainder).
_RESULTS = {"kRem": "1:2", "kDiv": "0:1", "kQuot": "0:1", "kDivAndRem": "0:2"}
