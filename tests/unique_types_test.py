"""Checks that no two files define a class, struct or union of the same name in one namespace.

Two such types in one program violate C++'s one-definition rule. No compiler sees it, and the linker merges their inline
functions, so that one of them is destroyed by the other's destructor. Types in unnamed namespaces, in functions and in
other types are not shared between files. Tests are programs of their own: a test's type may have the name of one in
another test, but not of one in a library.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("base", "core", "sdk", "plugins", "conformance")
# Programs that are linked with none of the others.
APART = re.compile(r"(^|/)(testdata|templates)/|_bench\.cc$")
TEST = re.compile(r"_test(ing)?\.(cc|h)$|/testing/|/tests/")

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.|\n)*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)
TOKEN = re.compile(r"[{};]")
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:class|struct|union)\s+(?:(?:alignas|ABSL_\w+|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)\s*|\[\[[^\]]*\]\]\s*)*"
                  r"(\w+)\s*(?:final\s*)?(?::(?!:)[^;{}]*)?$")


# A C interface declares a type that each of its implementations defines; no program contains two of them.
OPAQUE = re.compile(r"\btypedef struct (\w+) \1;")


def defined_types(text):
    """Yields the qualified names of types that the text defines at the level of named namespaces."""
    text = DIRECTIVE.sub("", COMMENT_OR_STRING.sub('""', text))
    scopes = []  # a namespace's name, or None for any other pair of braces
    begin = 0
    for token in TOKEN.finditer(text):
        head = text[begin:token.start()]
        begin = token.end()
        if token.group() == "}":
            if scopes:
                scopes.pop()
        elif token.group() == "{":
            namespace = NAMESPACE.search(head)
            if namespace:
                scopes.append(namespace.group(1) or None)
                continue
            named = TYPE.search(head)
            if named and None not in scopes:
                yield "::".join([*scopes, named.group(1)])
            scopes.append(None)


def duplicates(files):
    """`files`: name -> text. Returns a message for each name that two files define."""
    homes = collections.defaultdict(set)
    for name, text in files.items():
        for qualified in defined_types(text):
            homes[qualified].add(name)
    opaque = {name for text in files.values() for name in OPAQUE.findall(text)}
    found = []
    for qualified, names in sorted(homes.items()):
        if qualified in opaque:
            continue
        libraries = {n for n in names if not TEST.search(n)}
        if len(names) > 1 and libraries:
            found.append(f"{qualified} is defined in {', '.join(sorted(names))}: rename one, or put it into an unnamed namespace")
    return found


def self_check():
    launch = "namespace backplane::hip {\nstruct Launch : Base { int a; };\n}\n"
    other = "namespace backplane {\nnamespace hip {\ntemplate <class T>\nclass Launch final { struct Part {}; };\n}\n}\n"
    hidden = "namespace backplane::hip {\nnamespace {\nstruct Launch {};\n}\nvoid F() { struct Launch {}; }\nstruct Launch;\n}\n"
    special = "namespace backplane::hip {\ntemplate <>\nstruct Launch<int> {};\nstruct Outer { struct Launch {}; };\n}\n"
    problems = []
    if len(duplicates({"a/a.h": launch, "b/b.h": other})) != 1:
        problems.append("self check: two types of one name are not found")
    if len(duplicates({"a/a.h": launch, "a/a_test.cc": other})) != 1:
        problems.append("self check: a test's type is not compared with a library's")
    for name, text in (("b/b.cc", hidden), ("c/c.h", special)):
        problems += [f"self check: {p}" for p in duplicates({"a/a.h": launch, name: text})]
    problems += [f"self check: {p}" for p in duplicates({"a/a_test.cc": launch, "b/b_test.cc": launch})]
    handle, adapter = "typedef struct Mesh Mesh;\n", "struct Mesh {};\n"
    problems += [f"self check: {p}" for p in duplicates({"a/a.h": handle, "b/b.cc": adapter, "c/c_test.cc": adapter})]
    return problems


def main():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", *FOLDERS], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    files = {n: (ROOT / n).read_text() for n in names if n.endswith((".h", ".cc")) and not APART.search(n) and (ROOT / n).is_file()}
    found = self_check() + duplicates(files)
    print("\n".join(found) if found else f"types: {len(files)} files define each of their types once")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
