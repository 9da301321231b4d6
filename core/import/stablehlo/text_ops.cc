#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/text_internal.h"
#include "core/import/stablehlo/text_parser.h"

namespace backplane::stablehlo {

TextParser::TextParser(absl::string_view text, SourceModule* module)
    : text_(text), module_(*module), arena_(module->arena()), lexer_(text) {}

void TextParser::FailAt(size_t position, absl::string_view message, absl::StatusCode code) {
  if (status_.ok()) {
    status_ = absl::Status(code, absl::StrCat("stablehlo text ", LineAndColumn(text_, position), ": ", message));
  }
  token_ = Token();
  token_.position = text_.size();
  lexer_.set_position(text_.size());
}

void TextParser::Advance() {
  if (!ok()) return;
  token_ = lexer_.Next();
  if (token_.kind == TokenKind::kError) FailAt(token_.position, "unexpected character");
}

void TextParser::Jump(size_t position) {
  if (!ok()) return;
  lexer_.set_position(position);
  Advance();
}

std::string TextParser::FormatToken() const {
  if (token_.kind == TokenKind::kEnd) return "the end";
  return absl::StrCat("'", text_.substr(token_.position, std::min<size_t>(40, lexer_.position() - token_.position)),
                      "'");
}

bool TextParser::Take(char c) {
  if (!At(c)) return false;
  Advance();
  return true;
}

bool TextParser::TakeWord(absl::string_view word) {
  if (!AtWord(word)) return false;
  Advance();
  return true;
}

bool TextParser::TakeArrow() {
  if (token_.kind != TokenKind::kArrow) return false;
  Advance();
  return true;
}

bool TextParser::Expect(char c) {
  if (!ok()) return false;
  if (Take(c)) return ok();
  Fail(absl::StrCat("expected ", std::string(1, c), ", found ", FormatToken()));
  return false;
}

bool TextParser::ExpectWord(absl::string_view word) {
  if (!ok()) return false;
  if (TakeWord(word)) return ok();
  Fail(absl::StrCat("expected ", word, ", found ", FormatToken()));
  return false;
}

bool TextParser::ExpectAssign(absl::string_view word) { return ExpectWord(word) && Expect('='); }

absl::string_view TextParser::TakeBalanced() {
  size_t start = token_.position;
  std::string open;
  do {
    if (token_.kind == TokenKind::kEnd) {
      if (ok()) FailAt(start, "bracket without an end");
      return {};
    }
    if (token_.kind == TokenKind::kPunct) {
      char c = token_.text[0];
      if (c == '(' || c == '[' || c == '{' || c == '<') {
        open.push_back(c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>');
      } else if (c == ')' || c == ']' || c == '}' || c == '>') {
        if (open.empty() || open.back() != c) {
          FailAt(token_.position, absl::StrCat("unexpected ", std::string(1, c)));
          return {};
        }
        open.pop_back();
      }
    }
    size_t end = lexer_.position();
    Advance();
    if (open.empty()) return text_.substr(start, end - start);
  } while (ok());
  return {};
}

bool TextParser::ParseInteger(int64_t* value) {
  if (!ok()) return false;
  bool negative = Take('-');
  uint64_t magnitude = 0;
  bool good = token_.kind == TokenKind::kInteger;
  if (good) {
    good = absl::StartsWith(token_.text, "0x") ? absl::SimpleHexAtoi(token_.text, &magnitude)
                                               : absl::SimpleAtoi(token_.text, &magnitude);
    good = good && (magnitude <= uint64_t{1} << 63);
  }
  if (!good) {
    Fail(absl::StrCat("expected an integer, found ", FormatToken()));
    return false;
  }
  *value = static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
  Advance();
  return ok();
}

bool TextParser::ParseIntegerList(std::vector<int64_t>* values) {
  if (!Expect('[')) return false;
  if (Take(']')) return ok();
  do {
    values->emplace_back();
    if (!ParseInteger(&values->back())) return false;
  } while (Take(','));
  return Expect(']');
}

absl::string_view TextParser::ParseStringToken() {
  if (!ok()) return {};
  if (token_.kind != TokenKind::kString) {
    Fail(absl::StrCat("expected a string, found ", FormatToken()));
    return {};
  }
  absl::string_view quoted = token_.text;
  if (!absl::StrContains(quoted, "\\")) {
    Advance();
    return quoted.substr(1, quoted.size() - 2);
  }
  std::string plain;
  if (!UnescapeString(quoted, &plain)) {
    Fail("bad escape in a string");
    return {};
  }
  Advance();
  return arena_.CopyString(plain);
}

absl::string_view TextParser::ParseSymbol() {
  if (!ok()) return {};
  if (token_.kind != TokenKind::kAt) {
    Fail(absl::StrCat("expected a symbol, found ", FormatToken()));
    return {};
  }
  absl::string_view s = token_.text;
  if (absl::StartsWith(s, "\"")) {
    std::string plain;
    if (!UnescapeString(s, &plain)) {
      Fail("bad escape in a symbol");
      return {};
    }
    s = arena_.CopyString(plain);
  }
  Advance();
  return s;
}

absl::string_view TextParser::ParseKeyword() {
  if (!ok()) return {};
  if (token_.kind != TokenKind::kBareId) {
    Fail(absl::StrCat("expected a word, found ", FormatToken()));
    return {};
  }
  absl::string_view word = token_.text;
  Advance();
  return word;
}

// Aliases may be used before they are defined, so lines that define one are found first.
void TextParser::ScanAliases() {
  size_t line = 0;
  while (line < text_.size()) {
    char c = text_[line];
    size_t end = text_.find('\n', line);
    if (end == absl::string_view::npos) end = text_.size();
    if (c == '#' || c == '!') {
      size_t p = line + 1;
      while (p < end && !absl::ascii_isspace(text_[p]) && text_[p] != '=') ++p;
      absl::string_view name = text_.substr(line, p - line);
      while (p < end && absl::ascii_isspace(text_[p])) ++p;
      if (p < end && text_[p] == '=' && name.size() > 1) aliases_[name].position = p + 1;
    }
    line = end + 1;
  }
}

void TextParser::ScanResources() {
  size_t start = text_.rfind("{-#");
  if (start == absl::string_view::npos) return;
  Lexer lexer(text_);
  lexer.set_position(start + 3);
  Token previous, before;
  for (Token t = lexer.Next(); t.kind != TokenKind::kEnd && t.kind != TokenKind::kError; t = lexer.Next()) {
    if (t.kind == TokenKind::kString && previous.Is(':') && absl::StartsWith(t.text, "\"0x")) {
      absl::string_view key = before.text;
      if (before.kind == TokenKind::kString) key = key.substr(1, key.size() - 2);
      resources_[key] = t.text;
    }
    before = previous;
    previous = t;
  }
}

absl::Status TextParser::Parse() {
  ScanAliases();
  ScanResources();
  Advance();
  while (ok() && token_.kind != TokenKind::kEnd) {
    if (token_.kind == TokenKind::kHash || token_.kind == TokenKind::kBang) {
      // An alias definition: its value ends where a bracket-free line begins.
      Advance();
      if (!Expect('=')) break;
      bool first = true;
      while (ok() && token_.kind != TokenKind::kEnd) {
        bool line_start = token_.position == 0 || text_[token_.position - 1] == '\n';
        if (line_start && !first) break;
        first = false;
        if (At('(') || At('[') || At('{') || At('<')) {
          TakeBalanced();
        } else {
          Advance();
        }
      }
      continue;
    }
    // "{-#" begins the resources, which close the file and were read before.
    if (At('{') && absl::StartsWith(text_.substr(token_.position), "{-#")) break;
    if (module_seen_) {
      Fail(absl::StrCat("expected one module, found ", FormatToken(), " behind it"));
      break;
    }
    SourceOp* op = ParseOp(Parent::kModule);
    if (op && op->name != "builtin.module") top_ops_.push_back(op);
  }
  if (!ok()) return status_;
  module_.ops = arena_.Copy(top_ops_);
  module_.value_count = next_value_;
  absl::flat_hash_map<absl::string_view, size_t> positions;
  for (const auto& [name, alias] : aliases_) positions[name] = alias.position;
  module_.resolver = MakeTextLocationResolver(text_, std::move(locations_), std::move(positions));
  return status_;
}

bool TextParser::ParseOperand(OperandUse* use) {
  if (!ok()) return false;
  if (token_.kind != TokenKind::kPercent) {
    Fail(absl::StrCat("expected a value, found ", FormatToken()));
    return false;
  }
  use->name = token_.text;
  use->position = token_.position;
  Advance();
  if (token_.kind == TokenKind::kHash && absl::SimpleAtoi(token_.text, &use->index)) Advance();
  return ok();
}

bool TextParser::ParseOperands(std::vector<OperandUse>* uses) {
  if (token_.kind != TokenKind::kPercent) return ok();
  do {
    uses->emplace_back();
    if (!ParseOperand(&uses->back())) return false;
  } while (Take(','));
  return ok();
}

const SourceValue* TextParser::Resolve(const OperandUse& use, const SourceType* type) {
  if (!ok()) return nullptr;
  auto it = names_.find(use.name);
  if (it == names_.end() || it->second.first == nullptr || use.index >= it->second.count) {
    FailAt(use.position, absl::StrCat("value %", use.name, use.index ? absl::StrCat("#", use.index) : "",
                                      " is not defined before its use"));
    return nullptr;
  }
  const SourceValue* v = it->second.first + use.index;
  if (type && !SameType(v->type, type)) {
    FailAt(use.position,
           absl::StrCat("value %", use.name, " is ", TypeToString(v->type), ", used as ", TypeToString(type)));
    return nullptr;
  }
  return v;
}

bool TextParser::ResolveAll(const std::vector<OperandUse>& uses, absl::Span<const SourceType* const> types,
                            OpState* op) {
  if (!ok()) return false;
  if (uses.size() != types.size()) {
    FailAt(op->position, absl::StrCat(op->name, ": ", uses.size(), " operands, ", types.size(), " operand types"));
    return false;
  }
  for (size_t i = 0; i < uses.size(); ++i) op->operands.push_back(Resolve(uses[i], types[i]));
  return ok();
}

void TextParser::DefineName(absl::string_view name, Group group) {
  Group& slot = names_[name];
  shadowed_.push_back({name, slot});
  slot = group;
}

SourceBlock* TextParser::OpenBlock(const std::vector<Argument>& arguments, SourceRegion* region) {
  region->blocks = arena_.NewArray<SourceBlock>(1);
  SourceBlock& block = region->blocks[0];
  block.arguments = arena_.NewArray<SourceValue>(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    SourceValue& v = block.arguments[i];
    v.type = arguments[i].type;
    v.index = static_cast<uint32_t>(i);
    v.id = next_value_++;
    v.location = arguments[i].location;
    if (!arguments[i].name.empty()) DefineName(arguments[i].name, Group{&v, 1});
  }
  return &block;
}

// The current token is `{`. With `arguments` the region belongs to an op that spells them in front of it.
bool TextParser::ParseRegion(Parent inside, const std::vector<Argument>& arguments, SourceRegion* region) {
  if (region_depth_ >= kMaxRegionDepth) {
    Fail(absl::StrCat("regions are nested deeper than ", kMaxRegionDepth));
    return false;
  }
  if (!Expect('{')) return false;
  ++region_depth_;
  size_t mark = shadowed_.size();
  std::vector<Argument> own = arguments;
  if (arguments.empty() && token_.kind == TokenKind::kCaret) {
    Advance();
    if (Take('(')) {
      while (ok() && !At(')')) {
        Argument a;
        a.name = token_.text;
        if (token_.kind != TokenKind::kPercent) Fail(absl::StrCat("expected a block argument, found ", FormatToken()));
        Advance();
        Expect(':');
        a.type = ParseType();
        a.location = ParseOptionalLocation();
        own.push_back(a);
        if (!Take(',')) break;
      }
      Expect(')');
    }
    Expect(':');
  }
  // An empty region has no block at all; a declaration's body is one.
  if (ok() && !(At('}') && own.empty())) {
    SourceBlock* block = OpenBlock(own, region);
    std::vector<SourceOp*> ops;
    while (ok() && !At('}')) {
      if (token_.kind == TokenKind::kCaret) {
        Fail("second block in a region: unstructured control flow is not StableHLO");
        break;
      }
      if (SourceOp* op = ParseOp(inside)) ops.push_back(op);
    }
    block->ops = arena_.Copy(ops);
  }
  Expect('}');
  while (shadowed_.size() > mark) {
    names_[shadowed_.back().first] = shadowed_.back().second;
    shadowed_.pop_back();
  }
  --region_depth_;
  return ok();
}

SourceOp* TextParser::ParseOp(Parent parent) {
  struct ResultName {
    absl::string_view name;
    uint32_t count = 1;
  };
  std::vector<ResultName> names;
  size_t at = token_.position;
  if (token_.kind == TokenKind::kPercent) {
    do {
      ResultName r;
      if (token_.kind != TokenKind::kPercent) Fail(absl::StrCat("expected a result name, found ", FormatToken()));
      r.name = token_.text;
      Advance();
      if (Take(':')) {
        int64_t n = 0;
        ParseInteger(&n);
        if (ok() && (n < 1 || n > 1 << 20)) Fail(absl::StrCat("result group of ", n));
        r.count = static_cast<uint32_t>(n);
      }
      names.push_back(r);
    } while (ok() && Take(','));
    Expect('=');
  }
  OpState op;
  op.position = ok() ? token_.position : at;
  if (token_.kind == TokenKind::kString) {
    if (!ParseGenericOp(&op)) return nullptr;
  } else if (token_.kind == TokenKind::kBareId) {
    if (!ParseShortOp(parent, &op)) return nullptr;
  } else {
    if (ok()) Fail(absl::StrCat("expected an op, found ", FormatToken()));
    return nullptr;
  }
  if (LocationId at_end = ParseOptionalLocation(); at_end != 0) op.location = at_end;
  if (!ok()) return nullptr;
  SourceOp* made = Finish(&op, parent);
  if (!made) return nullptr;
  uint64_t total = 0;
  for (const ResultName& r : names) total += r.count;
  if (!names.empty() && total != made->results.size()) {
    FailAt(at, absl::StrCat(made->name, " has ", made->results.size(), " results, ", total, " are named"));
    return nullptr;
  }
  uint32_t next = 0;
  for (const ResultName& r : names) {
    DefineName(r.name, Group{&made->results[next], r.count});
    next += r.count;
  }
  return made;
}

// "name"(operands) <{properties}> ({regions}) {attributes} : (types) -> types
bool TextParser::ParseGenericOp(OpState* op) {
  op->name = std::string(ParseStringToken());
  Expect('(');
  std::vector<OperandUse> uses;
  ParseOperands(&uses);
  Expect(')');
  if (At('[')) {
    Fail("successors: unstructured control flow is not StableHLO");
    return false;
  }
  if (Take('<')) {
    ParseDictionary(&op->attributes);
    Expect('>');
  }
  Parent inside = op->name == "builtin.module" ? Parent::kModule
                  : op->name == "func.func"    ? Parent::kFunction
                                               : Parent::kOther;
  if (Take('(')) {
    do {
      SourceRegion region;
      if (!ParseRegion(inside, {}, &region)) return false;
      op->regions.push_back(region);
    } while (Take(','));
    Expect(')');
  }
  std::vector<SourceNamedAttr> discardable;
  if (!ok() || !ParseOptionalDictionary(&discardable)) return false;
  op->attributes.insert(op->attributes.end(), discardable.begin(), discardable.end());
  Expect(':');
  const SourceType* type = ParseType();
  if (!ok()) return false;
  if (type->kind != TypeKind::kFunction) {
    Fail(absl::StrCat("expected a function type, found ", TypeToString(type)));
    return false;
  }
  op->result_types.assign(type->results.begin(), type->results.end());
  return ResolveAll(uses, type->members, op);
}

bool TextParser::ParseShortOp(Parent parent, OpState* op) {
  size_t at = token_.position;
  op->name = std::string(ParseKeyword());
  std::string& name = op->name;
  if (name == "module") name = "builtin.module";
  if (name == "call" || name == "return") name = absl::StrCat("func.", name);
  if (name == "builtin.module") return ParseModule(op);
  if (name == "func.func") return ParseFunction(op);
  if (name == "func.call") return ParseCallOp(op);
  if (name == "func.return" || name == "stablehlo.return" || name == "sdy.return") return ParseReturnOp(op);
  if (name == "stablehlo.constant") return ParseConstantOp(op);
  if (name == "stablehlo.reduce") return ParseReduceOp(op);
  if (name == "stablehlo.while") return ParseWhileOp(op);
  if (name == "stablehlo.convolution") return ParseConvolutionOp(op);
  if (name == "stablehlo.dot_general" || name == "stablehlo.dot") return ParseDotOp(op);
  if (name == "stablehlo.composite") return ParseCompositeOp(op);
  if (name == "stablehlo.optimization_barrier") return ParseBarrierOp(op);
  if (absl::StartsWith(name, "sdy.")) return ParseShardyOp(op);
  if (absl::StartsWith(name, "chlo.")) return ParseChloOp(op);
  if (const char* format = ShortFormat(name)) return ParseByFormat(format, op);
  bool known = FindNewestForm(name) != nullptr;
  FailAt(at,
         known ? absl::StrCat("op ", name, " has no short form; write it in generic form, in quotes")
               : absl::StrCat("unknown op ", name),
         known ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnimplemented);
  return false;
}

bool TextParser::ParseModule(OpState* op) {
  if (token_.kind == TokenKind::kAt) Add(op, "sym_name", MakeString(arena_, ParseSymbol()));
  if (TakeWord("attributes")) ParseDictionary(&op->attributes);
  SourceRegion region;
  if (!ok() || !ParseRegion(Parent::kModule, {}, &region)) return false;
  op->regions.push_back(region);
  return true;
}

// `(` is the current token. Arguments are named in definitions and types only in declarations.
bool TextParser::ParseArguments(std::vector<Argument>* arguments, std::vector<const SourceAttr*>* dictionaries,
                                bool* named) {
  if (!Expect('(')) return false;
  *named = token_.kind == TokenKind::kPercent;
  while (ok() && !At(')')) {
    Argument a;
    if (*named) {
      a.name = token_.text;
      if (token_.kind != TokenKind::kPercent) Fail(absl::StrCat("expected an argument, found ", FormatToken()));
      Advance();
      Expect(':');
    }
    a.type = ParseType();
    std::vector<SourceNamedAttr> entries;
    if (!ok() || !ParseOptionalDictionary(&entries)) return false;
    dictionaries->push_back(MakeDict(arena_, std::move(entries)));
    a.location = ParseOptionalLocation();
    arguments->push_back(a);
    if (!Take(',')) break;
  }
  return Expect(')');
}

bool TextParser::ParseFunction(OpState* op) {
  for (absl::string_view v : {"public", "private", "nested"}) {
    if (TakeWord(v)) {
      Add(op, "sym_visibility", MakeString(arena_, v));
      break;
    }
  }
  Add(op, "sym_name", MakeString(arena_, ParseSymbol()));
  std::vector<Argument> arguments;
  std::vector<const SourceAttr*> argument_attributes, result_attributes;
  std::vector<const SourceType*> inputs, results;
  bool named = false;
  if (!ParseArguments(&arguments, &argument_attributes, &named)) return false;
  if (TakeArrow()) {
    if (At('(')) {
      std::vector<Argument> list;
      bool ignored = false;
      if (!ParseArguments(&list, &result_attributes, &ignored)) return false;
      for (const Argument& a : list) results.push_back(a.type);
    } else {
      results.push_back(ParseType());
      result_attributes.push_back(MakeDict(arena_, {}));
    }
  }
  if (TakeWord("attributes")) ParseDictionary(&op->attributes);
  if (!ok()) return false;
  for (const Argument& a : arguments) inputs.push_back(a.type);
  SourceType* type = arena_.New<SourceType>();
  type->kind = TypeKind::kFunction;
  type->members = arena_.Copy(inputs);
  type->results = arena_.Copy(results);
  Add(op, "function_type", MakeType(arena_, CheckType(type)));
  Add(op, "arg_attrs", MakeArray(arena_, argument_attributes));
  Add(op, "res_attrs", MakeArray(arena_, result_attributes));
  SourceRegion region;
  if (At('{')) {
    if (!named && !arguments.empty()) Fail("function body without argument names");
    // Function bodies see nothing from outside.
    if (!ParseRegion(Parent::kFunction, arguments, &region)) return false;
    if (region.blocks.empty()) {
      Fail("function with an empty body");
      return false;
    }
  }
  op->regions.push_back(region);
  return ok();
}

// StableHLO's structured attributes flattened, and what text may write in several ways written in one.
bool TextParser::Normalize(OpState* op) {
  std::vector<SourceNamedAttr> out;
  auto is_struct = [](absl::string_view name) {
    return name == "dimension_numbers" || name == "dot_dimension_numbers" || name == "scatter_dimension_numbers" ||
           name == "algorithm";
  };
  for (SourceNamedAttr a : op->attributes) {
    if (a.value->kind == AttrKind::kDict && is_struct(a.name) && absl::StartsWith(op->name, "stablehlo.")) {
      out.insert(out.end(), a.value->entries.begin(), a.value->entries.end());
      continue;
    }
    if (a.name == "channel_handle" && a.value->kind == AttrKind::kDict) {
      auto field = [&](absl::string_view name) {
        const SourceAttr* v = a.value->Find(name);
        return v ? v : MakeInteger(arena_, 0);
      };
      out.push_back({"channel_id", field("handle")});
      if (op->name == "stablehlo.send" || op->name == "stablehlo.recv") out.push_back({"channel_type", field("type")});
      continue;
    }
    if ((a.name == "use_global_device_ids" || a.name == "has_dynamic_root") && a.value->kind == AttrKind::kUnit) {
      a.value = MakeBool(arena_, true);
    }
    if (a.name == "api_version" && op->name == "stablehlo.custom_call" && a.value->kind == AttrKind::kInteger) {
      absl::string_view name = EnumName(EnumKind::kCustomCallApi, static_cast<uint64_t>(a.value->integer));
      if (name.empty()) {
        FailAt(op->position, absl::StrCat(op->name, ": unknown api_version ", a.value->integer));
        return false;
      }
      a.value = MakeEnum(arena_, name);
    }
    if (op->name == "stablehlo.composite" && a.name == "version" && a.value->kind == AttrKind::kInteger) {
      a.value = MakeInteger(arena_, a.value->integer, ElementKind::kI32);
    }
    if (op->name == "func.func" && (a.name == "arg_attrs" || a.name == "res_attrs") &&
        a.value->kind == AttrKind::kArray &&
        std::all_of(a.value->elements.begin(), a.value->elements.end(),
                    [](const SourceAttr* e) { return e->kind == AttrKind::kDict && e->entries.empty(); })) {
      a.value = MakeArray(arena_, {});
    }
    out.push_back(a);
  }
  op->attributes = std::move(out);
  // Lists a dimension-numbers attribute leaves out are empty, numbers zero.
  auto default_list = [&](absl::string_view name, bool number) {
    for (const SourceNamedAttr& a : op->attributes) {
      if (a.name == name) return;
    }
    op->attributes.push_back({name, number ? MakeInteger(arena_, 0) : MakeI64List(arena_, {})});
  };
  if (op->name == "stablehlo.gather" || op->name == "stablehlo.dynamic_gather") {
    for (absl::string_view n : {"offset_dims", "collapsed_slice_dims", "start_index_map"}) default_list(n, false);
    default_list("index_vector_dim", true);
  } else if (op->name == "stablehlo.scatter") {
    for (absl::string_view n : {"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"}) {
      default_list(n, false);
    }
    default_list("index_vector_dim", true);
  } else if (op->name == "stablehlo.dot_general") {
    for (absl::string_view n : {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
                                "rhs_contracting_dimensions"}) {
      default_list(n, false);
    }
  } else if (op->name == "stablehlo.convolution" || op->name == "stablehlo.dynamic_conv") {
    for (absl::string_view n : {"input_spatial_dimensions", "kernel_spatial_dimensions", "output_spatial_dimensions"}) {
      default_list(n, false);
    }
    for (absl::string_view n :
         {"input_batch_dimension", "input_feature_dimension", "kernel_input_feature_dimension",
          "kernel_output_feature_dimension", "output_batch_dimension", "output_feature_dimension"}) {
      default_list(n, true);
    }
  }
  return ok();
}

SourceOp* TextParser::Finish(OpState* op, Parent parent) {
  const OpForm* form = FindNewestForm(op->name);
  bool chlo = absl::StartsWith(op->name, "chlo.");
  if (!form && !chlo && FindForeignAttributes(op->name) == nullptr) {
    FailAt(op->position, absl::StrCat("unknown op ", op->name), absl::StatusCode::kUnimplemented);
    return nullptr;
  }
  if (!Normalize(op)) return nullptr;
  absl::string_view repeated;
  absl::Status s = absl::OkStatus();
  if (form) {
    s = CompleteAttributes(arena_, *form, &op->attributes);
    for (absl::string_view name : SplitNames(form->attributes)) {
      if (!s.ok()) break;
      auto it = std::find_if(op->attributes.begin(), op->attributes.end(),
                             [&](const SourceNamedAttr& a) { return a.name == name; });
      s = CheckAttributeKind(op->name, name, it->value);
    }
    auto check = [&](const char* what, size_t n, Arity arity) {
      if (s.ok() && !arity.Fits(n)) {
        s = absl::InvalidArgumentError(
            absl::StrCat(n, " ", what, ", expected ", arity.more ? "at least " : "", static_cast<int>(arity.least)));
      }
    };
    check("operands", op->operands.size(), form->operands);
    check("results", op->result_types.size(), form->results);
    check("regions", op->regions.size(), form->regions);
  } else if (!SortEntries(&op->attributes, &repeated)) {
    s = absl::InvalidArgumentError(absl::StrCat("attribute ", repeated, " stands twice"));
  }
  if (!s.ok()) {
    FailAt(op->position, absl::StrCat(op->name, ": ", s.message()), s.code());
    return nullptr;
  }
  SourceOp* made = arena_.New<SourceOp>();
  made->name = form ? SourceOpName(*form) : arena_.CopyString(op->name);
  if (made->name == "stablehlo.return" && parent == Parent::kFunction) made->name = "func.return";
  made->location = op->location;
  made->operands = arena_.Copy(op->operands);
  made->attributes = arena_.Copy(op->attributes);
  made->regions = arena_.NewArray<SourceRegion>(op->regions.size());
  std::copy(op->regions.begin(), op->regions.end(), made->regions.begin());
  made->results = arena_.NewArray<SourceValue>(op->result_types.size());
  for (size_t i = 0; i < op->result_types.size(); ++i) {
    made->results[i].type = op->result_types[i];
    made->results[i].op = made;
    made->results[i].index = static_cast<uint32_t>(i);
    made->results[i].id = next_value_++;
  }
  if (made->name == "builtin.module") {
    if (parent != Parent::kModule || region_depth_ != 0 || module_seen_ || !top_ops_.empty() ||
        made->regions.size() != 1) {
      FailAt(op->position, "expected one module at the top");
      return nullptr;
    }
    module_seen_ = true;
    std::vector<SourceNamedAttr> kept;
    for (const SourceNamedAttr& a : made->attributes) {
      if (a.name == "sym_name" && a.value->kind == AttrKind::kString) {
        module_.name = a.value->text;
      } else if (a.name != "sym_visibility") {
        kept.push_back(a);
      }
    }
    module_.attributes = arena_.Copy(kept);
    module_.location = op->location;
    if (!made->regions[0].blocks.empty()) {
      absl::Span<SourceOp* const> ops = made->regions[0].blocks[0].ops;
      top_ops_.assign(ops.begin(), ops.end());
    }
    return made;
  }
  if (parent == Parent::kModule) {
    const SourceAttr* symbol = made->Find("sym_name");
    if (symbol == nullptr || symbol->kind != AttrKind::kString) {
      FailAt(op->position, absl::StrCat(made->name, " cannot stand in a module: it has no symbol name"));
      return nullptr;
    }
    if (!module_.symbols.emplace(symbol->text, made).second) {
      FailAt(op->position, absl::StrCat("symbol @", symbol->text, " is defined twice"));
      return nullptr;
    }
  }
  if (made->name == "func.func") {
    const SourceType* type = made->Find("function_type")->type;
    bool good = type->kind == TypeKind::kFunction;
    if (good && !made->regions[0].blocks.empty()) {
      const SourceBlock& body = made->regions[0].blocks[0];
      good = std::equal(body.arguments.begin(), body.arguments.end(), type->members.begin(), type->members.end(),
                        [](const SourceValue& v, const SourceType* t) { return SameType(v.type, t); });
    }
    if (!good) {
      FailAt(op->position, "function type and body arguments differ");
      return nullptr;
    }
  }
  return made;
}

absl::StatusOr<std::unique_ptr<SourceModule>> ParseStablehloText(absl::string_view text) {
  auto module = std::make_unique<SourceModule>();
  module->written_bytes = static_cast<int64_t>(text.size());
  TextParser parser(text, module.get());
  if (absl::Status s = parser.Parse(); !s.ok()) return s;
  return module;
}

}  // namespace backplane::stablehlo
