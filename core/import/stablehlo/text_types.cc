#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/text_internal.h"

namespace backplane::stablehlo {

const SourceType* TextParser::CheckType(SourceType* type) {
  if (ok() && !WeighType(type)) Fail("type is too large when written out");
  return ok() ? type : nullptr;
}

const SourceType* TextParser::ParseType() {
  if (type_depth_ >= kMaxTypeDepth) {
    Fail(absl::StrCat("types are nested deeper than ", kMaxTypeDepth));
    return nullptr;
  }
  ++type_depth_;
  const SourceType* t = ParseTypeInner();
  --type_depth_;
  return ok() ? t : nullptr;
}

const SourceType* TextParser::ParseTypeInner() {
  if (At('(')) return ParseFunctionType();
  if (token_.kind == TokenKind::kBang) return ParseDialectType();
  if (token_.kind != TokenKind::kBareId) {
    Fail(absl::StrCat("expected a type, found ", FormatToken()));
    return nullptr;
  }
  ElementKind kind;
  if (ElementFromName(token_.text, &kind)) {
    Advance();
    return ScalarType(kind);
  }
  absl::string_view word = token_.text;
  size_t at = token_.position;
  Advance();
  if (word == "none") return NoneType();
  if (word == "tensor") return ParseTensor(TypeKind::kTensor);
  if (word == "memref") return ParseTensor(TypeKind::kBuffer);
  if (word == "complex") {
    Expect('<');
    SourceType* t = arena_.New<SourceType>();
    t->kind = TypeKind::kComplex;
    t->inner = ParseType();
    Expect('>');
    if (ok() && t->inner->kind != TypeKind::kScalar) Fail(absl::StrCat("complex of ", TypeToString(t->inner)));
    return ok() ? CheckType(t) : nullptr;
  }
  if (word == "tuple") {
    Expect('<');
    std::vector<const SourceType*> members;
    ParseTypeList('>', &members);
    SourceType* t = arena_.New<SourceType>();
    t->kind = TypeKind::kTuple;
    t->members = arena_.Copy(members);
    return CheckType(t);
  }
  FailAt(at, absl::StrCat("unknown type ", word));
  return nullptr;
}

bool TextParser::ParseTypeList(char close, std::vector<const SourceType*>* types) {
  if (Take(close)) return ok();
  do {
    types->push_back(ParseType());
    if (!ok()) return false;
  } while (Take(','));
  return Expect(close);
}

const SourceType* TextParser::ParseFunctionType() {
  Expect('(');
  std::vector<const SourceType*> inputs, results;
  if (!ParseTypeList(')', &inputs)) return nullptr;
  if (!TakeArrow()) {
    Fail(absl::StrCat("expected -> in a function type, found ", FormatToken()));
    return nullptr;
  }
  if (Take('(')) {
    if (!ParseTypeList(')', &results)) return nullptr;
  } else {
    results.push_back(ParseType());
  }
  if (!ok()) return nullptr;
  SourceType* t = arena_.New<SourceType>();
  t->kind = TypeKind::kFunction;
  t->members = arena_.Copy(inputs);
  t->results = arena_.Copy(results);
  return CheckType(t);
}

bool TextParser::ParseBounds(std::vector<int64_t>* bounds) {
  if (!Expect('<')) return false;
  while (ok() && !At('>')) {
    if (Take('?')) {
      bounds->push_back(kDynamic);
    } else {
      int64_t v = 0;
      if (!ParseInteger(&v)) return false;
      if (v < 0) Fail(absl::StrCat("tensor dimension bound ", v));
      bounds->push_back(v);
    }
    if (!Take(',')) break;
  }
  return Expect('>');
}

// The word "tensor" or "memref" is consumed, `<` is the current token. Dimensions are read from the characters: as
// tokens "2x3xf32" would be a number and a word.
const SourceType* TextParser::ParseTensor(TypeKind kind) {
  if (!At('<')) {
    Expect('<');
    return nullptr;
  }
  size_t p = token_.position + 1;
  auto skip_space = [&] {
    while (p < text_.size() && absl::ascii_isspace(text_[p])) ++p;
  };
  SourceType* t = arena_.New<SourceType>();
  t->kind = kind;
  std::vector<int64_t> dims;
  skip_space();
  if (p + 1 < text_.size() && text_[p] == '*' && text_[p + 1] == 'x') {
    t->kind = TypeKind::kUnrankedTensor;
    p += 2;
  } else {
    while (p < text_.size()) {
      skip_space();
      size_t q = p;
      int64_t d = 0;
      if (q < text_.size() && text_[q] == '?') {
        d = kDynamic;
        ++q;
      } else {
        while (q < text_.size() && absl::ascii_isdigit(text_[q])) ++q;
        if (q == p) break;
        if (!absl::SimpleAtoi(text_.substr(p, q - p), &d)) {
          FailAt(p, "tensor dimension does not fit in 64 bits");
          return nullptr;
        }
      }
      if (q >= text_.size() || text_[q] != 'x') {
        FailAt(q, "expected x behind a dimension");
        return nullptr;
      }
      dims.push_back(d);
      if (dims.size() > kMaxRank) {
        FailAt(p, absl::StrCat("tensor rank above ", kMaxRank));
        return nullptr;
      }
      p = q + 1;
    }
  }
  Jump(p);
  t->dims = arena_.Copy(dims);
  t->inner = ParseType();
  if (!ok()) return nullptr;
  TypeKind inner = t->inner->kind;
  if (inner != TypeKind::kScalar && inner != TypeKind::kComplex && inner != TypeKind::kQuantized &&
      inner != TypeKind::kOpaque) {
    Fail(absl::StrCat("tensor of ", TypeToString(t->inner)));
    return nullptr;
  }
  if (Take(',')) {
    const SourceAttr* encoding = ParseAttribute();
    if (!ok()) return nullptr;
    if (encoding->kind == AttrKind::kDense) {
      absl::StatusOr<std::vector<int64_t>> bounds = ReadDenseIntegers(encoding);
      if (!bounds.ok() || bounds->size() != dims.size()) {
        Fail(absl::StrCat("tensor of rank ", dims.size(), " with bounds of another rank"));
        return nullptr;
      }
      t->bounds = arena_.Copy(*bounds);
    } else {
      t->encoding = encoding;
    }
  }
  Expect('>');
  return CheckType(t);
}

const SourceType* TextParser::ParseQuantized() {
  SourceQuantization* q = arena_.New<SourceQuantization>();
  Expect('<');
  absl::string_view storage = ParseKeyword();
  if (!ok()) return nullptr;
  // "i8" and "u8"; signedness is a flag beside the storage type.
  q->storage_signed = !absl::StartsWith(storage, "u");
  ElementKind kind;
  if (!ElementFromName(absl::StrCat("i", storage.substr(1)), &kind)) {
    Fail(absl::StrCat("quantized storage type ", storage));
    return nullptr;
  }
  q->storage = ScalarType(kind);
  int bits = ElementBits(kind);
  if (bits < 2 || bits > 32) Fail(absl::StrCat("quantized storage of ", bits, " bits"));
  if (!ok()) return nullptr;
  q->storage_min = q->storage_signed ? -(int64_t{1} << (bits - 1)) : 0;
  q->storage_max = q->storage_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  if (Take('<')) {
    ParseInteger(&q->storage_min);
    Expect(':');
    ParseInteger(&q->storage_max);
    Expect('>');
  }
  Expect(':');
  q->expressed = ParseType();
  if (!ok()) return nullptr;
  if (q->expressed->kind != TypeKind::kScalar || !IsFloatElement(q->expressed->element)) {
    Fail("quantized type expresses no float");
    return nullptr;
  }
  if (Take(':')) {
    ParseInteger(&q->axis);
    if (q->axis < 0) Fail(absl::StrCat("quantized dimension ", q->axis));
  }
  Expect(',');
  std::vector<double> scales;
  std::vector<int64_t> zeros;
  auto scale = [&] {
    bool negative = Take('-');
    double value = 0;
    if (token_.kind != TokenKind::kFloat || !absl::SimpleAtod(token_.text, &value)) {
      Fail(absl::StrCat("expected a scale, found ", FormatToken()));
      return;
    }
    Advance();
    scales.push_back(negative ? -value : value);
    int64_t zero = 0;
    if (Take(':')) ParseInteger(&zero);
    zeros.push_back(zero);
  };
  if (Take('{')) {
    do scale();
    while (ok() && Take(','));
    Expect('}');
  } else {
    scale();
  }
  Expect('>');
  if (!ok()) return nullptr;
  q->scales = arena_.Copy(scales);
  q->zero_points = arena_.Copy(zeros);
  SourceType* t = arena_.New<SourceType>();
  t->kind = TypeKind::kQuantized;
  t->quantization = q;
  return CheckType(t);
}

const SourceType* TextParser::ParseDialectType() {
  absl::string_view name = token_.text;
  size_t at = token_.position;
  if (!absl::StrContains(name, ".")) {
    auto it = aliases_.find(text_.substr(at, name.size() + 1));
    if (it == aliases_.end()) {
      FailAt(at, absl::StrCat("type alias !", name, " is not defined"));
      return nullptr;
    }
    if (it->second.busy) {
      FailAt(at, absl::StrCat("type alias !", name, " refers to itself"));
      return nullptr;
    }
    Advance();
    if (it->second.type) return it->second.type;
    it->second.busy = true;
    Token after = token_;
    size_t resume = lexer_.position();
    Jump(it->second.position);
    const SourceType* t = ParseType();
    if (!ok()) return nullptr;
    lexer_.set_position(resume);
    token_ = after;
    Alias& alias = aliases_[text_.substr(at, name.size() + 1)];
    alias.busy = false;
    alias.type = t;
    return t;
  }
  Advance();
  if (name == "stablehlo.token") return TokenType();
  if (name == "quant.uniform") return ParseQuantized();
  SourceType* t = arena_.New<SourceType>();
  if (name == "stablehlo.future") {
    Expect('<');
    std::vector<const SourceType*> members;
    ParseTypeList('>', &members);
    t->kind = TypeKind::kFuture;
    t->members = arena_.Copy(members);
    return CheckType(t);
  }
  if (name == "shape.witness") {
    t->kind = TypeKind::kWitness;
    return t;
  }
  t->kind = TypeKind::kOpaque;
  size_t end = at + 1 + name.size();
  if (At('<') && token_.position == end) {
    absl::string_view body = TakeBalanced();
    end += body.size();
  }
  t->text = text_.substr(at, end - at);
  return ok() ? t : nullptr;
}

const SourceType* TextParser::RealPart(const SourceType* complex_tensor) {
  if (complex_tensor->kind != TypeKind::kTensor || complex_tensor->inner->kind != TypeKind::kComplex) {
    Fail(absl::StrCat("expected a complex tensor type, found ", TypeToString(complex_tensor)));
    return nullptr;
  }
  SourceType* t = arena_.New<SourceType>();
  *t = *complex_tensor;
  t->inner = complex_tensor->inner->inner;
  return t;
}

}  // namespace backplane::stablehlo
