// The short forms of StableHLO and CHLO ops. Most are described by a line of a table; a few have a function.
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/text_internal.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {
namespace {

// Words of a format, in the order of the text:
//   o            one operand            O  operands with commas between, maybe none    V  operands, each with a comma
//   kw=          the word and `=`       other punctuation  itself
//   I:name       integer as i64         J:name  integer as i32      L:name  [integers]      S:name  string
//   E:name       enumeration case       ?E:name the same behind an optional comma       ?lower  `, lower = bool`,
//   optional SLICE        [start:limit:stride]   FORMAT  e5m10               TARGET  @name A            attribute
//   dictionary, optional :T           `:` and either one type for everything or a function type :R           `:` result
//   types only   :select :complex :tuple  as these ops abbreviate
struct ShortForm {
  const char* op;
  const char* format;
};
constexpr char kElementwise[] = "O A :T";
// An elementwise operation without attributes that is not listed has kElementwise.
constexpr ShortForm kShortForms[] = {
    {"bitcast_convert", kElementwise},
    {"clamp", kElementwise},
    {"convert", kElementwise},
    {"dynamic_pad", kElementwise},
    {"dynamic_reshape", kElementwise},
    {"dynamic_update_slice", kElementwise},
    {"real_dynamic_slice", kElementwise},
    {"reshape", kElementwise},
    {"uniform_dequantize", kElementwise},
    {"uniform_quantize", kElementwise},
    {"after_all", kElementwise},
    {"create_token", "A :R"},
    {"partition_id", "A :R"},
    {"replica_id", "A :R"},
    {"iota", "dim= I:iota_dimension A :R"},
    {"dynamic_iota", "o , dim= I:iota_dimension A :T"},
    {"select", "O A :select"},
    {"complex", "O A :complex"},
    {"tuple", "O A :tuple"},
    {"compare", "E:comparison_direction , o , o ?E:compare_type A :T"},
    {"get_tuple_element", "o [ J:index ] A :T"},
    {"slice", "o SLICE A :T"},
    {"dynamic_slice", "o , V sizes= L:slice_sizes A :T"},
    {"broadcast", "o , sizes= L:broadcast_sizes A :T"},
    {"broadcast_in_dim", "o , dims= L:broadcast_dimensions A :T"},
    {"dynamic_broadcast_in_dim", "o , o , dims= L:broadcast_dimensions A :T"},
    {"cholesky", "o ?lower A :T"},
    {"concatenate", "V dim= I:dimension A :T"},
    {"custom_call", "TARGET ( O ) A :T"},
    {"einsum", "o , o , config= S:einsum_config A :T"},
    {"unary_einsum", "o , config= S:einsum_config A :T"},
    {"fft", "o , type= E:fft_type , length= L:fft_length A :T"},
    {"get_dimension_size", "o , dim= I:dimension A :T"},
    {"set_dimension_size", "o , o , dim= I:dimension A :T"},
    {"pad", "o , o , low= L:edge_padding_low , high= L:edge_padding_high , interior= L:interior_padding A :T"},
    {"reduce_precision", "o , format= FORMAT A :T"},
    {"reverse", "o , dims= L:dimensions A :T"},
    {"rng", "o , o , o , distribution= E:rng_distribution A :T"},
    {"rng_bit_generator", "o , algorithm= E:rng_algorithm A :T"},
    {"transpose", "o , dims= L:permutation A :T"},
};

}  // namespace

const char* ShortFormat(absl::string_view op_name) {
  if (!absl::ConsumePrefix(&op_name, "stablehlo.")) return nullptr;
  static const auto* formats = [] {
    auto* all = new absl::flat_hash_map<absl::string_view, const char*>();
    for (const ShortForm& f : kShortForms) all->emplace(f.op, f.format);
    return all;
  }();
  if (auto it = formats->find(op_name); it != formats->end()) return it->second;
  const OpInfo* info = FindByStablehlo(op_name);
  return info != nullptr && info->since != 0 ? kElementwise : nullptr;
}

bool TextParser::ParseByFormat(const char* format, OpState* op) {
  std::vector<OperandUse> uses;
  auto attribute_name = [](absl::string_view word) { return word.substr(word.find(':') + 1); };
  for (absl::string_view word : SplitNames(format)) {
    if (!ok()) return false;
    if (word == "o") {
      uses.emplace_back();
      ParseOperand(&uses.back());
    } else if (word == "O") {
      ParseOperands(&uses);
    } else if (word == "V") {
      while (ok() && token_.kind == TokenKind::kPercent) {
        uses.emplace_back();
        ParseOperand(&uses.back());
        Expect(',');
      }
    } else if (word == "A") {
      ParseOptionalDictionary(&op->attributes);
    } else if (word == "SLICE") {
      ParseSliceRanges(op);
    } else if (word == "FORMAT") {
      ParseExponentMantissa(op);
    } else if (word == "TARGET") {
      Add(op, "call_target_name", MakeString(arena_, ParseSymbol()));
    } else if (word == "?lower") {
      if (Take(',')) {
        ExpectAssign("lower");
        const SourceAttr* value = ok() ? ParseAttribute() : nullptr;
        if (ok()) Add(op, "lower", value);
      }
    } else if (word[0] == ':' && word.size() > 1) {
      if (!Expect(':')) return false;
      return ParseOpTypes(word.substr(1), uses, op);
    } else if (word.size() > 1 && word.back() == '=') {
      ExpectAssign(word.substr(0, word.size() - 1));
    } else if (absl::StartsWith(word, "I:") || absl::StartsWith(word, "J:")) {
      int64_t v = 0;
      if (ParseInteger(&v)) {
        Add(op, attribute_name(word), MakeInteger(arena_, v, word[0] == 'I' ? ElementKind::kI64 : ElementKind::kI32));
      }
    } else if (absl::StartsWith(word, "L:")) {
      std::vector<int64_t> values;
      if (ParseIntegerList(&values)) Add(op, attribute_name(word), MakeI64List(arena_, values));
    } else if (absl::StartsWith(word, "S:")) {
      Add(op, attribute_name(word), MakeString(arena_, ParseStringToken()));
    } else if (absl::StartsWith(word, "E:") || absl::StartsWith(word, "?E:")) {
      if (word[0] == '?' && !Take(',')) continue;
      const SourceAttr* value = ParseEnumWord(attribute_name(word));
      if (ok()) Add(op, attribute_name(word), value);
    } else {
      Expect(word[0]);
    }
  }
  return ok();
}

bool TextParser::ParseOpTypes(absl::string_view how, const std::vector<OperandUse>& uses, OpState* op) {
  if (how == "R") {
    do op->result_types.push_back(ParseType());
    while (ok() && Take(','));
    return ok();
  }
  std::vector<const SourceType*> operand_types;
  const SourceType* first = ParseType();
  if (!ok()) return false;
  if (how == "tuple") {
    if (first->kind != TypeKind::kTuple) {
      Fail(absl::StrCat("expected a tuple type, found ", TypeToString(first)));
      return false;
    }
    op->result_types.push_back(first);
    return ResolveAll(uses, first->members, op);
  }
  if (first->kind == TypeKind::kFunction) {
    op->result_types.assign(first->results.begin(), first->results.end());
    return ResolveAll(uses, first->members, op);
  }
  if (how == "select") {
    Expect(',');
    const SourceType* value = ParseType();
    if (!ok()) return false;
    operand_types = {first, value, value};
    op->result_types.push_back(value);
  } else if (how == "complex") {
    const SourceType* part = RealPart(first);
    if (!ok()) return false;
    operand_types = {part, part};
    op->result_types.push_back(first);
  } else {
    operand_types.assign(uses.size(), first);
    op->result_types.push_back(first);
  }
  return ResolveAll(uses, operand_types, op);
}

bool TextParser::ParseSliceRanges(OpState* op) {
  std::vector<int64_t> starts, limits, strides;
  Expect('[');
  while (ok() && !At(']')) {
    int64_t start = 0, limit = 0, stride = 1;
    ParseInteger(&start);
    Expect(':');
    ParseInteger(&limit);
    if (Take(':')) ParseInteger(&stride);
    starts.push_back(start);
    limits.push_back(limit);
    strides.push_back(stride);
    if (!Take(',')) break;
  }
  if (!Expect(']')) return false;
  Add(op, "start_indices", MakeI64List(arena_, starts));
  Add(op, "limit_indices", MakeI64List(arena_, limits));
  Add(op, "strides", MakeI64List(arena_, strides));
  return true;
}

bool TextParser::ParseExponentMantissa(OpState* op) {
  size_t at = token_.position;
  absl::string_view word = ParseKeyword();
  if (!ok()) return false;
  size_t m = word.find('m');
  int exponent = 0, mantissa = 0;
  if (word[0] != 'e' || m == absl::string_view::npos || !absl::SimpleAtoi(word.substr(1, m - 1), &exponent) ||
      !absl::SimpleAtoi(word.substr(m + 1), &mantissa)) {
    FailAt(at, absl::StrCat("expected a format such as e5m10, found ", word));
    return false;
  }
  Add(op, "exponent_bits", MakeInteger(arena_, exponent, ElementKind::kI32));
  Add(op, "mantissa_bits", MakeInteger(arena_, mantissa, ElementKind::kI32));
  return true;
}

// {attributes} dense<...> : type, behind the name of a constant.
bool TextParser::ParseConstantValue(OpState* op) {
  if (!ParseOptionalDictionary(&op->attributes)) return false;
  const SourceAttr* value = ParseAttribute();
  if (!ok()) return false;
  if (value->kind != AttrKind::kDense) {
    Fail("constant without a tensor value");
    return false;
  }
  Add(op, "value", value);
  op->result_types.push_back(value->type);
  return true;
}

bool TextParser::ParseConstantOp(OpState* op) {
  if (Take('(')) {
    // For results whose type is not the value's: () <{value = ..}> {..} : () -> type
    Expect(')');
    if (Take('<')) {
      ParseDictionary(&op->attributes);
      Expect('>');
    }
    if (!ok() || !ParseOptionalDictionary(&op->attributes)) return false;
    Expect(':');
    const SourceType* type = ParseType();
    if (!ok()) return false;
    if (type->kind != TypeKind::kFunction || !type->members.empty()) {
      Fail("expected () -> type");
      return false;
    }
    op->result_types.assign(type->results.begin(), type->results.end());
    return true;
  }
  return ParseConstantValue(op);
}

bool TextParser::ParseReturnOp(OpState* op) {
  std::vector<SourceNamedAttr> attributes;
  bool early = At('{');
  if (!ParseOptionalDictionary(&op->attributes)) return false;
  std::vector<OperandUse> uses;
  ParseOperands(&uses);
  if (!early && !ParseOptionalDictionary(&op->attributes)) return false;
  std::vector<const SourceType*> types;
  if (Take(':')) {
    do types.push_back(ParseType());
    while (ok() && Take(','));
  }
  return ok() && ResolveAll(uses, types, op);
}

bool TextParser::ParseBarrierOp(OpState* op) {
  if (!ParseOptionalDictionary(&op->attributes)) return false;
  if (Take('(')) return Expect(')');
  std::vector<OperandUse> uses;
  ParseOperands(&uses);
  if (uses.empty()) return ok();
  Expect(':');
  do op->result_types.push_back(ParseType());
  while (ok() && Take(','));
  return ok() && ResolveAll(uses, op->result_types, op);
}

bool TextParser::ParseCallOp(OpState* op) {
  Add(op, "callee", MakeString(arena_, ParseSymbol()));
  return ok() && ParseByFormat("( O ) A :T", op);
}

bool TextParser::ParseCompositeOp(OpState* op) {
  Add(op, "name", MakeString(arena_, ParseStringToken()));
  std::vector<OperandUse> uses;
  ParseOperands(&uses);
  if (Take('(')) {
    while (ok() && !At(')')) {
      SourceRegion region;
      if (!ParseRegion(Parent::kOther, {}, &region)) return false;
      op->regions.push_back(region);
      if (!Take(',')) break;
    }
    Expect(')');
  }
  if (!ok() || !ParseOptionalDictionary(&op->attributes)) return false;
  return Expect(':') && ParseOpTypes("T", uses, op);
}

bool TextParser::ParsePrecision(OpState* op) {
  Expect('=');
  Expect('[');
  std::vector<const SourceAttr*> cases;
  while (ok() && !At(']')) {
    cases.push_back(ParseEnumWord("precision"));
    if (!Take(',')) break;
  }
  if (!Expect(']')) return false;
  Add(op, "precision_config", MakeArray(arena_, cases));
  return true;
}

bool TextParser::ParseAlgorithm(OpState* op) {
  Expect('=');
  const SourceAttr* algorithm = ok() ? ParseStruct() : nullptr;
  if (!ok()) return false;
  Add(op, "algorithm", algorithm);
  return true;
}

bool TextParser::ParseDotOp(OpState* op) {
  std::vector<OperandUse> uses(2);
  ParseOperand(&uses[0]);
  Expect(',');
  ParseOperand(&uses[1]);
  if (op->name == "stablehlo.dot_general") {
    Expect(',');
    auto pair = [&](absl::string_view lhs, absl::string_view rhs) {
      std::vector<int64_t> a, b;
      Expect('=');
      ParseIntegerList(&a);
      ExpectWord("x");
      ParseIntegerList(&b);
      if (!ok()) return;
      Add(op, lhs, MakeI64List(arena_, a));
      Add(op, rhs, MakeI64List(arena_, b));
    };
    if (TakeWord("batching_dims")) {
      pair("lhs_batching_dimensions", "rhs_batching_dimensions");
      Expect(',');
    }
    ExpectWord("contracting_dims");
    pair("lhs_contracting_dimensions", "rhs_contracting_dimensions");
  }
  while (ok() && Take(',')) {
    if (TakeWord("precision")) {
      ParsePrecision(op);
    } else if (TakeWord("algorithm")) {
      ParseAlgorithm(op);
    } else {
      Fail(absl::StrCat("expected precision or algorithm, found ", FormatToken()));
    }
  }
  if (!ok() || !ParseOptionalDictionary(&op->attributes)) return false;
  return Expect(':') && ParseOpTypes("T", uses, op);
}

bool TextParser::ParseConvolutionOp(OpState* op) {
  std::vector<OperandUse> uses;
  Expect('(');
  ParseOperands(&uses);
  Expect(')');
  ExpectAssign("dim_numbers");
  const SourceAttr* dims = ok() ? ParseConvolutionDims() : nullptr;
  if (!ok()) return false;
  Add(op, "dimension_numbers", dims);
  Expect(',');
  ExpectAssign("window");
  Expect('{');
  while (ok() && !At('}')) {
    absl::string_view key = ParseKeyword();
    Expect('=');
    if (key == "stride" || key == "lhs_dilate" || key == "rhs_dilate") {
      std::vector<int64_t> values;
      if (!ParseIntegerList(&values)) return false;
      Add(op,
          key == "stride"       ? "window_strides"
          : key == "lhs_dilate" ? "lhs_dilation"
                                : "rhs_dilation",
          MakeI64List(arena_, values));
    } else if (key == "pad") {
      std::vector<int64_t> flat;
      Expect('[');
      while (ok() && !At(']')) {
        std::vector<int64_t> pair;
        if (!ParseIntegerList(&pair)) return false;
        if (pair.size() != 2) Fail(absl::StrCat("padding of ", pair.size(), " numbers, expected low and high"));
        flat.insert(flat.end(), pair.begin(), pair.end());
        if (!Take(',')) break;
      }
      if (!Expect(']')) return false;
      const SourceAttr* list = MakeI64List(arena_, flat);
      int64_t n = static_cast<int64_t>(flat.size()) / 2;
      Add(op, "padding",
          MakeDense(arena_, MakeTensorType(arena_, {n, 2}, ScalarType(ElementKind::kI64)), list->text, false));
    } else if (key == "reverse") {
      std::string bytes;
      Expect('[');
      while (ok() && !At(']')) {
        absl::string_view word = token_.kind == TokenKind::kInteger ? token_.text : absl::string_view();
        if (word.empty()) {
          word = ParseKeyword();
        } else {
          Advance();
        }
        if (ok() && word != "true" && word != "false" && word != "1" && word != "0") {
          Fail(absl::StrCat("expected a bool, found ", word));
        }
        bytes.push_back(word == "true" || word == "1");
        if (!Take(',')) break;
      }
      if (!Expect(']')) return false;
      int64_t n = static_cast<int64_t>(bytes.size());
      Add(op, "window_reversal",
          MakeDense(arena_, MakeTensorType(arena_, {n}, ScalarType(ElementKind::kBool)), arena_.CopyString(bytes),
                    false));
    } else if (ok()) {
      Fail(absl::StrCat("unknown window attribute ", key));
    }
    if (!Take(',')) break;
  }
  Expect('}');
  if (!ok() || !ParseOptionalDictionary(&op->attributes)) return false;
  return Expect(':') && ParseOpTypes("T", uses, op);
}

// (%x init: %c), ... then `applies op across dimensions = [..] : type` or `across dimensions = [..] : type reducer(..)
// {..}`
bool TextParser::ParseReduceOp(OpState* op) {
  std::vector<OperandUse> uses, inits;
  do {
    uses.emplace_back();
    inits.emplace_back();
    Expect('(');
    ParseOperand(&uses.back());
    ExpectWord("init");
    Expect(':');
    ParseOperand(&inits.back());
    Expect(')');
  } while (ok() && Take(','));
  uses.insert(uses.end(), inits.begin(), inits.end());
  std::string inner;
  size_t inner_at = token_.position;
  if (TakeWord("applies")) {
    inner_at = token_.position;
    inner = std::string(ParseKeyword());
  }
  ExpectWord("across");
  ExpectAssign("dimensions");
  std::vector<int64_t> dimensions;
  if (!ParseIntegerList(&dimensions) || !ParseOptionalDictionary(&op->attributes) || !Expect(':')) return false;
  Add(op, "dimensions", MakeI64List(arena_, dimensions));
  if (!ParseOpTypes("T", uses, op)) return false;
  SourceRegion region;
  if (!inner.empty()) {
    const OpForm* form = FindNewestForm(inner);
    if (!form || !absl::StartsWith(inner, "stablehlo.") || form->operands.least != 2 || form->operands.more ||
        form->attributes[0] != 0 || op->operands.size() != 2) {
      FailAt(inner_at, absl::StrCat("cannot apply ", inner, ": expected a binary op without attributes"));
      return false;
    }
    const SourceType* element = op->operands[0]->type->inner;
    if (element == nullptr) {
      FailAt(op->position, "operand of a reduction is no tensor");
      return false;
    }
    const SourceType* scalar = MakeTensorType(arena_, {}, element);
    SourceBlock* block = OpenBlock({{"", scalar, 0}, {"", scalar, 0}}, &region);
    OpState body;
    body.position = inner_at;
    body.name = inner;
    body.operands = {&block->arguments[0], &block->arguments[1]};
    body.result_types = {scalar};
    SourceOp* applied = Finish(&body, Parent::kOther);
    if (!applied) return false;
    OpState end;
    end.position = inner_at;
    end.name = "stablehlo.return";
    end.operands = {&applied->results[0]};
    SourceOp* last = Finish(&end, Parent::kOther);
    if (!last) return false;
    // The ops of the abbreviation have the location of the reduction.
    op->location = applied->location = last->location = ParseOptionalLocation();
    block->ops = arena_.Copy(std::vector<SourceOp*>{applied, last});
    op->regions.push_back(region);
    return ok();
  }
  ExpectWord("reducer");
  std::vector<Argument> left, right;
  auto argument = [&](std::vector<Argument>* list) {
    Argument a;
    a.name = token_.text;
    if (ok() && token_.kind != TokenKind::kPercent) Fail(absl::StrCat("expected an argument, found ", FormatToken()));
    Advance();
    Expect(':');
    a.type = ParseType();
    a.location = ParseOptionalLocation();
    list->push_back(a);
  };
  while (ok() && Take('(')) {
    argument(&left);
    Expect(',');
    argument(&right);
    Expect(')');
  }
  left.insert(left.end(), right.begin(), right.end());
  if (!ok() || !ParseRegion(Parent::kOther, left, &region)) return false;
  op->regions.push_back(region);
  return true;
}

bool TextParser::ParseWhileOp(OpState* op) {
  std::vector<OperandUse> uses;
  std::vector<Argument> arguments;
  Expect('(');
  while (ok() && !At(')')) {
    Argument a;
    a.name = token_.text;
    if (token_.kind != TokenKind::kPercent) Fail(absl::StrCat("expected an argument, found ", FormatToken()));
    Advance();
    Expect('=');
    uses.emplace_back();
    ParseOperand(&uses.back());
    arguments.push_back(a);
    if (!Take(',')) break;
  }
  Expect(')');
  if (!uses.empty() && Expect(':')) {
    do op->result_types.push_back(ParseType());
    while (ok() && Take(','));
  }
  if (!ok() || !ResolveAll(uses, op->result_types, op)) return false;
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i].type = op->result_types[i];
  if (TakeWord("attributes") && !ParseDictionary(&op->attributes)) return false;
  SourceRegion condition, body;
  if (!ExpectWord("cond") || !ParseRegion(Parent::kOther, arguments, &condition)) return false;
  if (!ExpectWord("do") || !ParseRegion(Parent::kOther, arguments, &body)) return false;
  op->regions = {condition, body};
  return true;
}

// chlo.erf %a : T -> U; chlo.zeta %a, %b : T, U -> V; chlo.broadcast_add %a, %b : (T, U) -> V
bool TextParser::ParseChloOp(OpState* op) {
  std::vector<OperandUse> uses;
  if (op->name == "chlo.constant") return ParseConstantValue(op);
  if (op->name == "chlo.scan") {
    std::vector<OperandUse> inits;
    Expect('(');
    ParseOperands(&uses);
    Expect(')');
    ExpectWord("inits");
    Expect('(');
    ParseOperands(&inits);
    Expect(')');
    ExpectAssign("dimension");
    int64_t dimension = 0;
    if (!ParseInteger(&dimension)) return false;
    Add(op, "dimension", MakeInteger(arena_, dimension));
    if (TakeWord("attributes") && !ParseDictionary(&op->attributes)) return false;
    SourceRegion region;
    if (!ParseRegion(Parent::kOther, {}, &region)) return false;
    op->regions.push_back(region);
    int64_t carries = static_cast<int64_t>(inits.size()), inputs = static_cast<int64_t>(uses.size());
    uses.insert(uses.end(), inits.begin(), inits.end());
    if (!Expect(':') || !ParseOpTypes("T", uses, op)) return false;
    auto segments = [&](int64_t a, int64_t b) {
      char* bytes = arena_.NewBytes(8);
      for (int i = 0; i < 4; ++i) {
        bytes[i] = static_cast<char>(a >> (8 * i));
        bytes[4 + i] = static_cast<char>(b >> (8 * i));
      }
      const SourceType* type = MakeTensorType(arena_, {2}, ScalarType(ElementKind::kI32));
      return MakeDense(arena_, type, absl::string_view(bytes, 8), false);
    };
    Add(op, "operandSegmentSizes", segments(inputs, carries));
    Add(op, "resultSegmentSizes", segments(static_cast<int64_t>(op->result_types.size()) - carries, carries));
    return true;
  }
  if (op->name == "chlo.top_k") {
    Expect('(');
    uses.emplace_back();
    ParseOperand(&uses.back());
    Expect(',');
    ExpectAssign("k");
    int64_t k = 0;
    if (!ParseInteger(&k)) return false;
    Add(op, "k", MakeInteger(arena_, k));
    if (Take(',')) {
      ExpectAssign("is_stable");
      const SourceAttr* stable = ok() ? ParseAttribute() : nullptr;
      if (!ok()) return false;
      Add(op, "is_stable", stable);
    }
    Expect(')');
  } else {
    ParseOperands(&uses);
  }
  if (!ok() || !ParseOptionalDictionary(&op->attributes) || !Expect(':')) return false;
  std::vector<const SourceType*> types;
  const SourceType* first = ParseType();
  if (!ok()) return false;
  if (first->kind == TypeKind::kFunction) {
    op->result_types.assign(first->results.begin(), first->results.end());
    return ResolveAll(uses, first->members, op);
  }
  types.push_back(first);
  while (ok() && Take(',')) types.push_back(ParseType());
  if (ok() && !TakeArrow()) Fail(absl::StrCat("expected ->, found ", FormatToken()));
  if (Take('(')) {
    ParseTypeList(')', &op->result_types);
  } else {
    op->result_types.push_back(ParseType());
  }
  return ok() && ResolveAll(uses, types, op);
}

}  // namespace backplane::stablehlo
