"""Writes message classes (message.h) from a .proto file.

usage: messages.py FILE.proto INCLUDE OUT.h OUT.cc      INCLUDE: how the .cc includes the header

Of the language it knows what the files of this folder use: proto3 messages, nested ones, oneofs, numbers, bools, floats,
bytes, messages and repeated ones of them, and imports of other files of this folder. Classes have the accessors that
protobuf's have.
"""
import pathlib
import re
import sys

SCALARS = {"int32": "int32_t", "int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "bool",
           "float": "float", "double": "double"}


class Field:
    def __init__(self, kind, name, number, repeated, oneof):
        self.kind, self.name, self.number, self.repeated, self.oneof = kind, name, number, repeated, oneof
        self.case = "k" + "".join(w.capitalize() for w in name.split("_"))


class Message:
    def __init__(self, name, outer):
        self.name, self.outer = name, outer
        self.scope = outer.scope + [name] if outer else [name]
        self.fields, self.nested, self.oneofs = [], [], []
        self.full = "_".join(self.scope)


def parse(text):
    text = re.sub(r"//[^\n]*", "", text)
    imports = re.findall(r'import\s+"([^"]+)"\s*;', text)
    tokens = re.findall(r'[A-Za-z_][\w.]*|\d+|"[^"]*"|[{}=;]', text)
    messages, at = [], 0

    def read(outer):
        nonlocal at
        message = Message(tokens[at + 1], outer)
        at += 3  # message NAME {
        oneof = None
        while True:
            word = tokens[at]
            if word == "message":
                message.nested.append(read(message))
            elif word == "oneof":
                oneof = tokens[at + 1]
                message.oneofs.append(oneof)
                at += 3
            elif word == "}":
                at += 1
                if oneof is None:
                    break
                oneof = None
            else:
                repeated = word == "repeated"
                kind, name, eq, number, end = tokens[at + repeated:at + repeated + 5]
                if eq != "=" or end != ";":
                    sys.exit(f"messages.py: cannot read a field near '{' '.join(tokens[at:at + 6])}'")
                message.fields.append(Field(kind, name, int(number), repeated, oneof))
                at += repeated + 5
        return message

    while at < len(tokens):
        if tokens[at] == "message":
            messages.append(read(None))
        else:  # syntax, package, import, option
            while tokens[at] != ";":
                at += 1
            at += 1
    return messages, imports


def flatten(messages):
    """Inner messages first."""
    for m in messages:
        yield from flatten(m.nested)
        yield m


def cpp_type(field, message):
    """The C++ type of one value. A nested message's class stands in the namespace as Outer_Inner."""
    if field.kind in SCALARS:
        return SCALARS[field.kind]
    if field.kind == "bytes":
        return "std::string"
    while message is not None:
        for m in message.nested:
            if m.name == field.kind:
                return m.full
        message = message.outer
    return field.kind


def storage(field, message):
    t = cpp_type(field, message)
    scalar = field.kind in SCALARS
    if field.repeated:
        return f"RepeatedField<{t}>" if scalar else f"RepeatedPtrField<{t}>"
    return t if scalar or field.kind == "bytes" else f"Optional<{t}>"


def accessors(f, m):
    t, n = cpp_type(f, m), f.name
    scalar, text = f.kind in SCALARS, f.kind == "bytes"
    own = n + "_"
    out = []
    if f.repeated:
        out.append(f"int {n}_size() const {{ return {own}.size(); }}")
        out.append(f"const {storage(f, m)}& {n}() const {{ return {own}; }}")
        out.append(f"{storage(f, m)}* mutable_{n}() {{ return &{own}; }}")
        out.append(f"void clear_{n}() {{ {own}.Clear(); }}")
        if scalar:
            out.append(f"{t} {n}(int i) const {{ return {own}.Get(i); }}")
            out.append(f"void set_{n}(int i, {t} v) {{ {own}.Set(i, v); }}")
            out.append(f"void add_{n}({t} v) {{ {own}.Add(v); }}")
        else:
            out.append(f"const {t}& {n}(int i) const {{ return {own}.Get(i); }}")
            out.append(f"{t}* mutable_{n}(int i) {{ return {own}.Mutable(i); }}")
            out.append(f"{t}* add_{n}() {{ return {own}.Add(); }}")
            if text:
                out.append(f"void add_{n}(std::string v) {{ *{own}.Add() = std::move(v); }}")
        return out
    choose = f"choose_{f.oneof}({f.case}); " if f.oneof else ""
    clear = f"if ({f.oneof}_case_ == {f.case}) choose_{f.oneof}({f.oneof.upper()}_NOT_SET);" if f.oneof else None
    if scalar:
        out.append(f"{t} {n}() const {{ return {own}; }}")
        out.append(f"void set_{n}({t} v) {{ {choose}{own} = v; }}")
        out.append(f"void clear_{n}() {{ {clear or f'{own} = {{}};'} }}")
    elif text:
        out.append(f"const std::string& {n}() const {{ return {own}; }}")
        out.append(f"void set_{n}(std::string v) {{ {choose}{own} = std::move(v); }}")
        out.append(f"std::string* mutable_{n}() {{ {choose}return &{own}; }}")
        out.append(f"void clear_{n}() {{ {clear or f'{own}.clear();'} }}")
    else:
        out.append(f"bool has_{n}() const {{ return {own}.has(); }}")
        out.append(f"const {t}& {n}() const {{ return {own}.get(); }}")
        out.append(f"{t}* mutable_{n}() {{ {choose}return {own}.mutable_get(); }}")
        out.append(f"void clear_{n}() {{ {clear or f'{own}.clear();'} }}")
    return out


def declaration(m):
    lines = [f"class {m.full} final : public Message {{", " public:"]
    for inner in m.nested:
        lines.append(f"  using {inner.name} = {inner.full};")
    lines += [f"  {m.full}();", f"  ~{m.full}() override;", f"  {m.full}(const {m.full}&);", f"  {m.full}({m.full}&&) noexcept;",
              f"  {m.full}& operator=(const {m.full}&);", f"  {m.full}& operator=({m.full}&&) noexcept;", "  void Clear() override;"]
    for o in m.oneofs:
        cases = [f"{o.upper()}_NOT_SET = 0"] + [f"{f.case} = {f.number}" for f in m.fields if f.oneof == o]
        kind = "".join(w.capitalize() for w in o.split("_")) + "Case"
        lines.append(f"  enum {kind} {{ {', '.join(cases)} }};")
        lines.append(f"  {kind} {o}_case() const {{ return {o}_case_; }}")
    # Declared here, defined below where all classes are complete.
    lines += ["  " + re.sub(r" \{.*", ";", a) for f in m.fields for a in accessors(f, m)]
    lines += ["", " private:", "  bool ReadField(uint32_t number, uint32_t wire, WireInput& in) override;",
              "  void WriteFields(WireOutput& out) const override;"]
    for o in m.oneofs:
        kind = "".join(w.capitalize() for w in o.split("_")) + "Case"
        lines.append(f"  void choose_{o}({kind} chosen);")
        lines.append(f"  {kind} {o}_case_ = {o.upper()}_NOT_SET;")
    lines += [f"  {storage(f, m)} {f.name}_{{}};" for f in m.fields]
    return lines + ["};", ""]


def inline(m):
    out = []
    for f in m.fields:
        for a in accessors(f, m):
            head, body = a.split(" {", 1)
            kind, rest = re.match(r"(.*[ &*])((?:\w+)\(.*)", head).groups()
            out.append(f"inline {kind}{m.full}::{rest} {{{body}")
    return out


def definition(m):
    c = m.full
    lines = [f"{c}::{c}() = default;", f"{c}::~{c}() = default;", f"{c}::{c}(const {c}&) = default;",
             f"{c}::{c}({c}&&) noexcept = default;", f"{c}& {c}::operator=(const {c}&) = default;",
             f"{c}& {c}::operator=({c}&&) noexcept = default;", f"void {c}::Clear() {{ *this = {c}(); }}"]
    for o in m.oneofs:
        kind = "".join(w.capitalize() for w in o.split("_")) + "Case"
        lines += [f"void {c}::choose_{o}({kind} chosen) {{", f"  if ({o}_case_ == chosen) return;", f"  {o}_case_ = chosen;"]
        lines += [f"  {f.name}_ = {{}};" for f in m.fields if f.oneof == o]
        lines.append("}")
    lines += [f"bool {c}::ReadField(uint32_t number, uint32_t wire, WireInput& in) {{", "  switch (number) {"]
    for f in m.fields:
        lines.append(f"    case {f.number}:")
        if f.oneof:
            wire = {"float": 5, "double": 1}.get(f.kind, 0 if f.kind in SCALARS else 2)
            lines.append(f"      if (wire != {wire}) return in.Skip(number, wire);")
            lines.append(f"      choose_{f.oneof}({f.case});")
        lines.append(f"      return in.Field(number, wire, &{f.name}_);")
    lines += ["    default:", "      return in.Skip(number, wire);", "  }", "}",
              f"void {c}::WriteFields(WireOutput& out) const {{"]
    for f in sorted(m.fields, key=lambda f: f.number):
        if f.oneof:
            lines.append(f"  if ({f.oneof}_case_ == {f.case}) out.Field({f.number}, {f.name}_, true);")
        else:
            lines.append(f"  out.Field({f.number}, {f.name}_);")
    return lines + ["}", ""]


def main():
    source, include, header, implementation = sys.argv[1:]
    messages, imports = parse(pathlib.Path(source).read_text())
    every = list(flatten(messages))
    for m in every:
        numbers = [f.number for f in m.fields]
        if len(set(numbers)) != len(numbers):
            sys.exit(f"messages.py: {m.full} has a number twice")
    note = f"// Written by core/import/proto/messages.py from {pathlib.Path(source).name}."
    guard = re.sub(r"\W", "_", include).upper() + "_"
    out = [note, f"#ifndef {guard}", f"#define {guard}", "", '#include "core/import/proto/message.h"']
    out += [f'#include "{i.replace(".proto", ".messages.h")}"' for i in imports]
    out += ["", "namespace backplane::proto {", ""]
    out += [f"class {m.full};" for m in every] + [""]
    for m in every:
        out += declaration(m)
    for m in every:
        out += inline(m)
    out += ["", "}  // namespace backplane::proto", "", f"#endif  // {guard}", ""]
    pathlib.Path(header).write_text("\n".join(out))
    out = [note, f'#include "{include}"', "", "namespace backplane::proto {", ""]
    for m in every:
        out += definition(m)
    out += ["}  // namespace backplane::proto", ""]
    pathlib.Path(implementation).write_text("\n".join(out))


if __name__ == "__main__":
    main()
