"""Checks that names, comments, messages and pages use the field's terms, and suggests them where they do not.

  words_test.py                 checks the folders in CLEAN
  words_test.py FOLDER...       checks these folders or files; for cleaning up another one

A rule for prose is a pattern over comments, strings and pages. A rule for names is a pattern over the words of an
identifier (`kPlaceOf` has the words k, place and of). ALLOWED lists the legitimate uses, which no rule sees.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folders (ending in a slash) and files that must have no finding. Whoever cleans a folder adds it.
CLEAN = ("base/", "bench/", "cmake/", "conformance/", "core/", "dev", "docs/", "plugins/", "samples/", "sdk/backend/", "sdk/cli/", "sdk/codegen/",
         "sdk/compiler/", "sdk/engine/backend/", "sdk/engine/codegen/", "sdk/engine/compiler/", "sdk/engine/jit/", "sdk/engine/kernels/", "sdk/engine/library/",
         "sdk/engine/runtime/", "sdk/engine/thunks/", "sdk/host/", "sdk/layers/", "sdk/python/",
         "sdk/report/", "sdk/shim/", "sdk/templates/", "sdk/testing/", "tests/", "tools/", "README.md", "ARCHITECTURE.md",
         "CONTRIBUTING.md", "CHANGELOG.md")
# Data of other programs and published headers, whose words are not ours; and this file.
EXEMPT = re.compile(r"(^|/)testdata/|\.(hlo|mlir|mlirbc|json|svg|csv|case)$|^api/|^LICENSE|^NOTICE|^conformance/(profiles|cases|levels)/|"
                    r"^tests/words_test\.py$|/caught_by\.txt$|requirements\.txt$")
SOURCE = re.compile(r"\.(h|cc|c|def|inc)$")
SCRIPT = re.compile(r"\.(py|cmake)$|(^|/)(CMakeLists\.txt|dev)$")
PAGE = re.compile(r"\.(md|txt)$")

# Legitimate uses: standard terms, other libraries' names, and plain English. They are removed before the rules look.
ALLOWED = re.compile("|".join((
    r"constant[- ]fold\w*", r"fold(s|ed|ing)?[- _]constants?", r"constants?( are| is|)? folded", r"FoldConstants\w*", r"kFoldConstants",
    r"std::fold\w*", r"\bfold expressions?", r"(jax\.random\.|random\.)?\bfold_in\b", r"below the fold", r"\bin[- ]?folder", r"folders?\b",
    r"\b(in|by|out of) turns?\b", r"\bin (its|their) turns?\b", r"\btak(e|es|ing) turns\b", r"\bturn(s|ed|ing)? (out|on|off|into|to|it|them|back|around|away|up|down)\b",
    r"\bturn(s|ing)? (?:the|each|all|an?|every|Python|values?|errors?|exceptions?|numbers?) ", r"U-?Turn", r"NoUTurn",
    r"\bin[- ]place\b", r"\bin_place\w*", r"place_?holder", r"\btakes? place\b",
    r"(parameter|Jacobi|max_iter) sweeps?", r"\bsweep_(condition|body)\b", r"\ba sweep of\b", r"NoUTurnSampler", r"\bsweeps? of (the )?parameters?", r"(rng_|Threefry )?\blanes?_?id",
    r"Joint(Distribution)\w*", r"<joint\b.*?/>",
)), re.I)

# (pattern over the words of an identifier joined by spaces, the field's word)
NAMES = (
    (r"\bfold(s|ed|ing)?\b", "reduce, reducer, reduction or combiner"),
    (r"\bturns?\b", "iteration or trip count"),
    (r"\bsweeps?\b", "pass or round"),
    (r"\bspread(s|ing)?\b", "broadcast"),
    (r"\bjoint\b", "multi-output"),
    (r"\bkept (row|rows)\b", "staged row buffer"),
    (r"\bodd bits?\b", "xor"),
    (r"\bplaces? of\b|^k? ?places?$", "index, slot, position or buffer"),
    (r"\blies? alike\b", "same sharding"),
    (r"\bown steps?\b", "custom lowering"),
    (r"\btaken by\b", "claimed by"),
    (r"\brunning computations?\b", "non-fusion or control flow computations"),
    (r"\bway there\b", "in place"),
)
# Found also as the name of a local variable.
ALWAYS = ("fold", "folds", "folded", "turn", "turns", "sweep", "odd_bits")
# A function named by a participle or a preposition does not say what it does.
TELLTALE = re.compile(r"\b(Looked|Taken|Around|Told|Asked|Said|Folded|Beside|Whereabouts)\s*\((?!\))")

# (pattern over a sentence, the field's word)
PROSE = (
    (r"\bfold(s|ed|ing)?\b", "reduction, reducer or combiner"),
    (r"\b(a|each|every|one|no|next|last|per|first|another|this|few|many|several|of|further|next) turns?\b|\bnumbers? of turns\b|\bturns of\b",
     "iteration or trip count"),
    (r"\bkept rows?\b", "staged row buffer"),
    (r"\b(partial|row|work) sweeps?\b|\b(a|each|every|one|first|second|further) sweeps?\b", "pass or round"),
    (r"\bjoint (fusions?|kernels?|reductions?|outputs?|results?)\b", "multi-output"),
    (r"\blies? (alike|whole|split)\b|\blies? (in the same way|on|over) (the |all )?(devices|partitions)\b", "is sharded as, is replicated"),
    (r"\bwhole values?\b", "full or replicated value"),
    (r"\bparts of (a|the) sum\b", "partial (unreduced)"),
    (r"\bfilling (value|element)s?\b", "padding"),
    (r"\bexchanges? (between|of|over|among) (the |all )?(devices|partitions)\b", "collective"),
    (r"\bcuts? (of|between|over) (the |all )?(devices|partitions)\b", "reshard"),
    (r"\bfamil(y|ies) of (devices|partitions)\b", "manual subgroup"),
    (r"\bodd bits?\b", "xor"),
    (r"\bown steps\b", "custom lowering"),
    (r"\b(operations?|instructions?|calls?) (that are |which are )?taken by\b", "claimed by"),
    (r"\bon the way there\b|\bway there\b", "in place"),
    (r"\b(devices|partitions|processes|participants|launches)( of a group)? (all )?meets?\b|\bmeeting of (the )?devices\b", "rendezvous"),
    (r"\bletters? (to|from|between|of) (a |the |another )?(device|process|thread|partition)s?\b", "message"),
    (r"\brunning computations?\b", "non-fusion or control flow computations"),
    (r"\bnobody knows\b", "unknown"),
    (r"\bwhat stands for\b|\bstands? for a value\b", "represents, or the name of the thing"),
    (r"\bby what it says\b|\bby (its|their|the \w+'s) own words?\b|\bcannot forget\b|\bto the letter\b", "a plain sentence"),
    (r"\bspread (over|out over|along) (all|the|each|every|dim|dims|dimensions)\b", "broadcast"),
    (r"\bhighest (place|index|number|element|value)\b", "largest or max"),
    (r"\b(at|of|in) places?\b(?= (of|in) (the|a|an|its) (tile|array|buffer|row|result|operand|list))", "index, slot or position"),
)

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def words(identifier):
    return " ".join(w.lower() for w in WORD.findall(identifier))


NAME_RULES = [(re.compile(p), advice) for p, advice in NAMES]
PROSE_RULES = [(re.compile(p, re.I), advice) for p, advice in PROSE]


def check_name(identifier):
    if ALLOWED.fullmatch(identifier):
        return None
    text = words(identifier)
    if " " not in text and text not in ALWAYS and not identifier[0].isupper() and not identifier.endswith("_"):
        return None  # a local variable named by one plain word
    for pattern, advice in NAME_RULES:
        if pattern.search(text):
            return advice
    return None


def split(path, text):
    """Yields (line number, prose, code) for each line of a file: its comments and strings, and the rest."""
    if PAGE.search(path) and not SCRIPT.search(path):
        for number, line in enumerate(text.split("\n"), 1):
            yield number, re.sub(r"`[^`]*`", " ", line), ALLOWED.sub(" ", " ".join(re.findall(r"`([^`]*)`", line)))
        return
    mark = "//" if SOURCE.search(path) else "#"
    docstring = False
    for number, line in enumerate(text.split("\n"), 1):
        if mark == "#" and line.count('"""') % 2:
            docstring = not docstring
            yield number, line, ""
            continue
        if docstring:
            yield number, line, ""
            continue
        strings = STRING.findall(line)
        code = STRING.sub('""', line)
        code, _, comment = code.partition(mark)
        # Words in backquotes are code; strings with no blank are identifiers and keys.
        quoted = [s for s in strings if " " in s]
        yield number, re.sub(r"`[^`]*`", " ", comment) + " " + " ".join(quoted), code


def problems(path, text):
    """Returns one message for each finding in a file."""
    found = []
    for number, prose, code in split(path, text):
        prose = ALLOWED.sub(" ", prose)
        for pattern, advice in PROSE_RULES:
            m = pattern.search(prose)
            if m:
                found.append(f"{path}:{number}: \"{m.group(0)}\": {advice}")
        m = TELLTALE.search(code)
        if m:
            found.append(f"{path}:{number}: {m.group(1)}(): a verb that says what the function does")
        for identifier in dict.fromkeys(IDENTIFIER.findall(ALLOWED.sub(" ", code))):
            advice = check_name(identifier)
            if advice:
                found.append(f"{path}:{number}: {identifier}: {advice}")
    name = pathlib.PurePosixPath(path).name
    advice = check_name(name.split(".")[0] + "_")
    if advice and not ALLOWED.search(name):
        found.append(f"{path}: the file name: {advice}")
    return found


def self_check():
    bad = (("a.cc", "// Combines all results of one turn.\n"), ("a.cc", "// A fold over the rows.\n"), ("a.cc", "int ReduceInTurns(int x);\n"),
           ("a.h", "class ExpandFolds {};\n"), ("a.cc", "Value Looked(Builder& b);\n"), ("a.cc", "constexpr int kPlace = 1;\n"),
           ("a.cc", "// Replaces one instruction by what it says.\n"), ("a.cc", "// A loop of nobody knows how many iterations.\n"),
           ("a.cc", 'return Error("a fold of 3 elements");\n'), ("a.md", "values that lie alike\n"), ("a.md", "The devices meet once.\n"),
           ("a.py", "# a sum in each turn\n"), ("a.py", '"""What whole values are."""\n'), ("expand_folds.cc", "\n"),
           ("a.h", "std::vector<Computation*> RunningComputations();\n"), ("a.cc", "absl::Status SpreadLeaves(int x);\n"), ("a.cc", "// Each holds parts of the sum.\n"),
           ("a.md", "An exchange between devices follows.\n"))
    good = (("a.cc", "// Constant folding evaluates it; other passes fold constants too.\n"), ("a.cc", "p->Add<FoldConstants>();\n"),
            ("a.cc", "// Updates the buffer in place. It turns out that they take turns.\n"), ("a.py", "key = jax.random.fold_in(key, 1)\n"),
            ("a.cc", "// Turns the error into a Status, which in turn is returned.\n"), ("a.cc", "bool in_place = true;\n"),
            ("a.cc", '#include "sdk/folder/x.h"\n'), ("a.cc", "// The file is in a folder.\n"), ("fold_constants.cc", "\n"),
            ("a.md", "See `core/passes/fold_constants.cc`.\n"), ("a.cc", "// The highest bit of the placeholder.\n"))
    return ([f"self check: {path}: {text.strip()!r} should be found" for path, text in bad if not problems(path, text)] +
            [f"self check: {path}: {problems(path, text)}" for path, text in good if problems(path, text)])


def main(folders):
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    names = [n for n in names if n.startswith(tuple(folders)) and not EXEMPT.search(n) and (ROOT / n).is_file() and
             (SOURCE.search(n) or SCRIPT.search(n) or PAGE.search(n))]
    found = self_check()
    for name in names:
        found += problems(name, (ROOT / name).read_text(errors="replace"))
    print("\n".join(found) if found else f"words: {len(names)} files are clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or CLEAN))
