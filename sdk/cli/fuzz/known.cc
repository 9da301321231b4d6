#include "sdk/cli/fuzz/known.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace backplane::cli::fuzz {
namespace {

bool Lists(const std::vector<std::string>& list, absl::string_view word) {
  return std::find(list.begin(), list.end(), "*") != list.end() ||
         std::find(list.begin(), list.end(), word) != list.end();
}

bool Contains(const Module& module, const KnownDifference& k) {
  for (const Computation* c : module.PostOrder()) {
    for (const auto& i : c->instructions()) {
      if (k.operation != "*" && OpName(i->opcode()) != k.operation) continue;
      if (k.same_operands) {
        // For a scatter, the arrays that it changes: an array may also be its own update.
        const int64_t looked_at = i->Is(Opcode::kScatter) ? (i->operand_count() - 1) / 2 : i->operand_count();
        const std::set<const Instruction*> different(i->operands().begin(), i->operands().begin() + looked_at);
        if (static_cast<int64_t>(different.size()) == looked_at) continue;
      }
      bool fits = false;
      auto look = [&](const Shape& s) {
        ForEachLeaf(s, [&](const Shape& leaf, const std::vector<int64_t>&) {
          fits = fits || Lists(k.types, Name(leaf.element_type()));
        });
      };
      look(i->shape());
      for (const Instruction* o : i->operands()) look(o->shape());
      if (fits) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<KnownDifference>> ParseKnownDifferences(absl::string_view text) {
  std::vector<KnownDifference> all;
  std::set<std::string> ids;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    for (absl::string_view f : absl::StrSplit(line, '|')) fields.emplace_back(absl::StripAsciiWhitespace(f));
    if (fields.size() != 6) {
      return absl::InvalidArgumentError(
          absl::StrCat("known differences, line ", number, ": ", fields.size(), " fields, expected 6"));
    }
    KnownDifference k;
    absl::string_view operation = fields[2];
    k.same_operands = absl::ConsumeSuffix(&operation, "(x,x)");
    k.operation = std::string(operation);
    if (operation != "*" && !ParseOpcode(operation).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("known differences, line ", number, ": no operation '", fields[2], "'"));
    }
    k.id = fields[0];
    k.plugin = fields[1];
    k.types = absl::StrSplit(fields[3], ' ', absl::SkipEmpty());
    std::string when = fields[4];
    if (const size_t quote = when.find('"'); quote != std::string::npos) {
      const size_t end = when.rfind('"');
      if (end == quote) {
        return absl::InvalidArgumentError(absl::StrCat("known differences, line ", number, ": a quote is left open"));
      }
      k.message = when.substr(quote + 1, end - quote - 1);
      when.erase(quote, end - quote + 1);
    }
    k.when = absl::StrSplit(when, ' ', absl::SkipEmpty());
    k.why = fields[5];
    if (!ids.insert(k.id).second) {
      return absl::InvalidArgumentError(absl::StrCat("known differences, line ", number, ": '", k.id, "' again"));
    }
    all.push_back(std::move(k));
  }
  return all;
}

const KnownDifference* FindKnown(const std::vector<KnownDifference>& known, absl::string_view plugin,
                                 const Module& smallest, const std::vector<std::string>& signs,
                                 absl::string_view what) {
  for (const KnownDifference& k : known) {
    if (!absl::StrContains(plugin, k.plugin) || !absl::StrContains(what, k.message) || !Contains(smallest, k)) continue;
    for (const std::string& sign : signs) {
      if (Lists(k.when, sign)) return &k;
    }
  }
  return nullptr;
}

}  // namespace backplane::cli::fuzz
