"""Tests the links of the Markdown pages: every relative link names a file of the repository, every anchor a heading of its page, and
the pages of docs/ are reachable from docs/README.md."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
EXTERNAL = re.compile(r"^[a-z]+:")


def prose(text):
    """The text without code, in which brackets are not links."""
    return re.sub(r"^ {4}.*$|`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)


def anchors(text):
    """The anchors of a page's headings, as GitHub derives them."""
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}


def problems(pages, exists):
    """One message for each broken link. `pages` maps names to texts; `exists` tells whether a path is in the repository."""
    found = []
    reached = {"docs/README.md"}
    todo = list(reached)
    links = {}
    for name, text in pages.items():
        folder = pathlib.PurePosixPath(name).parent
        links[name] = set()
        for target in LINK.findall(prose(text)):
            if EXTERNAL.match(target):
                continue
            path, _, anchor = target.partition("#")
            parts = []
            for part in (folder / path).parts if path else pathlib.PurePosixPath(name).parts:
                parts = parts[:-1] if part == ".." and parts else parts + [part]
            to = "/".join(parts)
            links[name].add(to)
            if not exists(to):
                found.append(f"{name}: the link {target} names no file")
            elif anchor and to in pages and anchor not in anchors(pages[to]):
                found.append(f"{name}: the link {target} names no heading")
    while todo:
        for to in links.get(todo.pop(), ()):
            if to not in reached:
                reached.add(to)
                todo.append(to)
    found += [f"{name}: not reachable from docs/README.md" for name in pages if name.startswith("docs/") and name not in reached]
    return found


def self_check():
    good = {"docs/README.md": "# A b\n[x](y.md#c-d) [s](#a-b) `[n](o.md)`\n\n    [c](ode.md)\n[u](../R.md)", "docs/y.md": "# C, d\n[w](https://x)"}
    assert not problems(good, lambda p: p in {*good, "R.md"}), problems(good, lambda p: p in {*good, "R.md"})
    for bad in ("[x](z.md)", "[x](y.md#e)", "[x](../../q)", "no link"):
        pages = {"docs/README.md": bad, "docs/y.md": "# C"}
        assert problems(pages, lambda p: p in pages), bad


def main():
    self_check()
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    files = {n for n in names if (ROOT / n).is_file()}
    folders = {str(p) for n in files for p in pathlib.PurePosixPath(n).parents}
    pages = {n: (ROOT / n).read_text() for n in files if n.endswith(".md")}
    found = problems(dict(sorted(pages.items())), lambda p: p in files or p in folders)
    print("\n".join(found) if found else f"links: {len(pages)} pages are sound")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
