#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/text_internal.h"

namespace backplane::stablehlo {

// loc(...) is skipped; only where its inside begins is remembered.
LocationId TextParser::ParseOptionalLocation() {
  if (!AtWord("loc")) return 0;
  Advance();
  if (!At('(')) {
    Expect('(');
    return 0;
  }
  size_t inside = token_.position + 1;
  TakeBalanced();
  if (!ok()) return 0;
  locations_.push_back(inside);
  return static_cast<LocationId>(locations_.size());
}

namespace {

class TextLocationResolver : public LocationResolver {
 public:
  TextLocationResolver(absl::string_view text, std::vector<size_t> locations,
                       absl::flat_hash_map<absl::string_view, size_t> aliases)
      : text_(text), locations_(std::move(locations)), aliases_(std::move(aliases)) {}

  SourceLocation Resolve(LocationId id) const override {
    SourceLocation out;
    if (id <= locations_.size()) {
      Lexer lexer(text_);
      lexer.set_position(locations_[id - 1]);
      Token t = lexer.Next();
      int steps = kMaxLocationSteps;
      Walk(lexer, t, 0, &steps, &out);
    }
    return out;
  }

 private:
  // Reads one location that starts at `t`; leaves the token behind it in `t`. Stops where the file is known: nothing is
  // filled in after it.
  void Walk(Lexer& lexer, Token& t, int depth, int* steps, SourceLocation* out) const {
    if (depth > kMaxLocationWalk || (*steps)-- <= 0 || !out->file.empty()) return;
    if (t.kind == TokenKind::kBareId && t.text == "loc") {  // the definition of an alias
      t = lexer.Next();
      if (!t.Is('(')) return;
      t = lexer.Next();
      Walk(lexer, t, depth + 1, steps, out);
      return;
    }
    if (t.kind == TokenKind::kHash) {
      auto it = aliases_.find(text_.substr(t.position, t.text.size() + 1));
      if (it != aliases_.end()) {
        Lexer inner(text_);
        inner.set_position(it->second);
        Token first = inner.Next();
        Walk(inner, first, depth + 1, steps, out);
      }
      t = lexer.Next();
      return;
    }
    if (t.kind == TokenKind::kString) {
      std::string name;
      UnescapeString(t.text, &name);
      t = lexer.Next();
      if (t.Is(':')) {
        Token line = lexer.Next();
        Token colon = lexer.Next();
        Token column = lexer.Next();
        if (colon.Is(':')) {
          out->file = name;
          if (!absl::SimpleAtoi(line.text, &out->line) || !absl::SimpleAtoi(column.text, &out->column)) return;
        }
        t = lexer.Next();
        // "to 3:4" or "to :9"
        if (t.kind == TokenKind::kBareId && t.text == "to") {
          t = lexer.Next();
          while (t.Is(':') || t.kind == TokenKind::kInteger) t = lexer.Next();
        }
        return;
      }
      if (out->name.empty()) out->name = name;
      if (t.Is('(')) {
        t = lexer.Next();
        Walk(lexer, t, depth + 1, steps, out);
        if (t.Is(')')) t = lexer.Next();
      }
      return;
    }
    if (t.kind != TokenKind::kBareId) return;
    if (t.text == "callsite") {
      lexer.Next();
      t = lexer.Next();
      Walk(lexer, t, depth + 1, steps, out);
      if (t.kind == TokenKind::kBareId && t.text == "at") {
        t = lexer.Next();
        Walk(lexer, t, depth + 1, steps, out);
      }
      if (t.Is(')')) t = lexer.Next();
      return;
    }
    if (t.text == "fused") {
      t = lexer.Next();
      int open = 0;
      if (t.Is('<')) {  // metadata
        do {
          if (t.Is('<')) ++open;
          if (t.Is('>')) --open;
          t = lexer.Next();
        } while (open > 0 && (*steps)-- > 0 && t.kind != TokenKind::kEnd && t.kind != TokenKind::kError);
      }
      while (*steps > 0 && (t.Is('[') || t.Is(','))) {
        t = lexer.Next();
        Walk(lexer, t, depth + 1, steps, out);
      }
      if (t.Is(']')) t = lexer.Next();
      return;
    }
    t = lexer.Next();  // unknown
  }

  absl::string_view text_;
  std::vector<size_t> locations_;
  absl::flat_hash_map<absl::string_view, size_t> aliases_;
};

}  // namespace

std::unique_ptr<LocationResolver> MakeTextLocationResolver(absl::string_view text, std::vector<size_t> locations,
                                                           absl::flat_hash_map<absl::string_view, size_t> aliases) {
  return std::make_unique<TextLocationResolver>(text, std::move(locations), std::move(aliases));
}

}  // namespace backplane::stablehlo
