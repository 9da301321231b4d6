#include "core/import/export/stablehlo_printer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/source_build.h"
#include "core/import/stablehlo/text_internal.h"
#include "core/types/status_macros.h"

namespace backplane::stablehlo {
namespace {

using Names = std::vector<absl::string_view>;

// Ops that take one type for all operands and results when these are the same.
bool TakesOneType(absl::string_view name, absl::string_view format) {
  return absl::StartsWith(format, "O A") || name == "reverse" || name == "cholesky" || name == "reduce_precision";
}

class Printer {
 public:
  Printer(const SourceModule& module, const StablehloTextOptions& options)
      : module_(module), options_(options), names_(module.value_count) {}

  absl::StatusOr<std::string> Run() {
    std::vector<std::string> attributes;
    for (const SourceNamedAttr& a : module_.attributes) {
      std::string text = absl::StrCat(MlirKey(a.name), " = ");
      if (!AppendMlirAttribute(a.value, false, &text)) return MakeAttributeError("module", a.name);
      attributes.push_back(std::move(text));
    }
    absl::StrAppend(&out_, "module");
    if (!module_.name.empty()) absl::StrAppend(&out_, " ", MlirSymbol(module_.name));
    if (!attributes.empty()) absl::StrAppend(&out_, " attributes {", absl::StrJoin(attributes, ", "), "}");
    out_ += " {\n";
    for (const SourceOp* op : module_.ops) {
      if (op->name == "func.func") {
        RETURN_IF_ERROR(PrintFunction(*op));
      } else {
        RETURN_IF_ERROR(PrintOp(*op, 1));
      }
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  static absl::Status MakeAttributeError(absl::string_view op, absl::string_view attribute) {
    return absl::UnimplementedError(absl::StrCat("stablehlo export: ", op, ": attribute ", attribute, " has no text"));
  }

  void Indent(int depth) { out_.append(static_cast<size_t>(2 * depth), ' '); }
  const std::string& Name(const SourceValue* v) const { return names_[v->id]; }
  std::string JoinNames(absl::Span<const SourceValue* const> values) const {
    return absl::StrJoin(values, ", ", [&](std::string* s, const SourceValue* v) { *s += Name(v); });
  }
  void NameArgument(const SourceValue& v) { names_[v.id] = absl::StrCat("%arg", next_argument_++); }
  void PrintLocation(LocationId id) {
    if (!options_.locations || id == 0) return;
    const SourceLocation at = module_.Location(id);
    if (at.name.empty() && at.file.empty()) return;
    const std::string file = absl::StrCat(MlirString(at.file), ":", at.line, ":", at.column);
    if (at.name.empty()) {
      absl::StrAppend(&out_, " loc(", file, ")");
    } else if (at.file.empty()) {
      absl::StrAppend(&out_, " loc(", MlirString(at.name), ")");
    } else {
      absl::StrAppend(&out_, " loc(", MlirString(at.name), "(", file, "))");
    }
  }

  static std::string MakeFunctionType(const SourceOp& op) {
    std::string out = absl::StrCat(
        "(",
        absl::StrJoin(op.operands, ", ", [](std::string* s, const SourceValue* v) { *s += TypeToString(v->type); }),
        ") -> ");
    const std::string results =
        absl::StrJoin(op.results, ", ", [](std::string* s, const SourceValue& v) { *s += TypeToString(v.type); });
    absl::StrAppend(&out, op.results.size() == 1 ? results : absl::StrCat("(", results, ")"));
    return out;
  }

  absl::Status PrintFunction(const SourceOp& op) {
    next_argument_ = next_value_ = 0;
    const SourceType* type = op.Find("function_type")->type;
    const absl::string_view visibility = op.Find("sym_visibility")->text;
    absl::StrAppend(&out_, "  func.func ", visibility.empty() ? "" : absl::StrCat(visibility, " "),
                    MlirSymbol(op.Find("sym_name")->text), "(");
    auto dictionary = [&](const SourceAttr* all, size_t i) -> absl::Status {
      if (all == nullptr || i >= all->elements.size() || all->elements[i]->entries.empty()) return absl::OkStatus();
      out_ += ' ';
      if (!AppendMlirAttribute(all->elements[i], false, &out_))
        return MakeAttributeError(op.Find("sym_name")->text, "arg_attrs");
      return absl::OkStatus();
    };
    const bool declaration = op.regions[0].blocks.empty();
    for (size_t i = 0; i < type->members.size(); ++i) {
      if (i) out_ += ", ";
      if (!declaration) {
        const SourceValue& v = op.regions[0].blocks[0].arguments[i];
        NameArgument(v);
        absl::StrAppend(&out_, Name(&v), ": ");
      }
      out_ += TypeToString(type->members[i]);
      RETURN_IF_ERROR(dictionary(op.Find("arg_attrs"), i));
      if (!declaration) PrintLocation(op.regions[0].blocks[0].arguments[i].location);
    }
    out_ += ')';
    if (!type->results.empty()) {
      out_ += " -> (";
      for (size_t i = 0; i < type->results.size(); ++i) {
        absl::StrAppend(&out_, i ? ", " : "", TypeToString(type->results[i]));
        RETURN_IF_ERROR(dictionary(op.Find("res_attrs"), i));
      }
      out_ += ')';
    }
    if (!declaration) {
      out_ += " {\n";
      for (const SourceOp* inner : op.regions[0].blocks[0].ops) RETURN_IF_ERROR(PrintOp(*inner, 2));
      out_ += "  }";
    }
    PrintLocation(op.location);
    out_ += '\n';
    return absl::OkStatus();
  }

  absl::Status PrintOp(const SourceOp& op, int depth) {
    Indent(depth);
    if (!op.results.empty()) {
      const std::string name = absl::StrCat("%", next_value_++);
      const bool several = op.results.size() > 1;
      for (size_t i = 0; i < op.results.size(); ++i) {
        names_[op.results[i].id] = several ? absl::StrCat(name, "#", i) : name;
      }
      absl::StrAppend(&out_, name, several ? absl::StrCat(":", op.results.size()) : "", " = ");
    }
    bool printed = false;
    if (options_.pretty) {
      ASSIGN_OR_RETURN(printed, PrintPretty(op, depth));
    }
    if (!printed) RETURN_IF_ERROR(PrintGeneric(op, depth));
    PrintLocation(op.location);
    out_ += '\n';
    return absl::OkStatus();
  }

  // The attributes that `skip` does not name; as ` {..}` when there are any.
  absl::Status PrintRemainingAttributes(const SourceOp& op, const Names& skip, absl::string_view word = "") {
    std::vector<std::string> all, more;
    std::string bad;
    if (!MlirAttributes(op, skip, &all, &more, &bad)) return MakeAttributeError(op.name, bad);
    all.insert(all.end(), more.begin(), more.end());
    if (!all.empty()) absl::StrAppend(&out_, word, " {", absl::StrJoin(all, ", "), "}");
    return absl::OkStatus();
  }

  absl::Status PrintGeneric(const SourceOp& op, int depth) {
    std::vector<std::string> inherent, discardable;
    std::string bad;
    if (!MlirAttributes(op, {}, &inherent, &discardable, &bad)) return MakeAttributeError(op.name, bad);
    absl::StrAppend(&out_, "\"", op.name, "\"(", JoinNames(op.operands), ")");
    if (!inherent.empty()) absl::StrAppend(&out_, " <{", absl::StrJoin(inherent, ", "), "}>");
    if (!op.regions.empty()) {
      out_ += " (";
      for (size_t i = 0; i < op.regions.size(); ++i) {
        if (i) out_ += ", ";
        RETURN_IF_ERROR(PrintRegion(op.regions[i], depth, true));
      }
      out_ += ')';
    }
    if (!discardable.empty()) absl::StrAppend(&out_, " {", absl::StrJoin(discardable, ", "), "}");
    absl::StrAppend(&out_, " : ", MakeFunctionType(op));
    return absl::OkStatus();
  }

  absl::Status PrintRegion(const SourceRegion& region, int depth, bool with_arguments) {
    out_ += "{\n";
    for (const SourceBlock& block : region.blocks) {
      if (with_arguments && !block.arguments.empty()) {
        Indent(depth);
        out_ += "^bb0(";
        for (size_t i = 0; i < block.arguments.size(); ++i) {
          NameArgument(block.arguments[i]);
          absl::StrAppend(&out_, i ? ", " : "", Name(&block.arguments[i]), ": ", TypeToString(block.arguments[i].type));
          PrintLocation(block.arguments[i].location);
        }
        out_ += "):\n";
      }
      for (const SourceOp* op : block.ops) RETURN_IF_ERROR(PrintOp(*op, depth + 1));
    }
    Indent(depth);
    out_ += '}';
    return absl::OkStatus();
  }

  // ---- short forms ----

  absl::StatusOr<bool> PrintPretty(const SourceOp& op, int depth) {
    absl::string_view name = op.name;
    if (name == "func.return" || name == "stablehlo.return") {
      absl::StrAppend(&out_, name == "func.return" ? "return" : name, op.operands.empty() ? "" : " ",
                      JoinNames(op.operands));
      RETURN_IF_ERROR(PrintRemainingAttributes(op, {}));
      PrintTypes(" : ", op.operands);
      return true;
    }
    if (name == "func.call") {
      absl::StrAppend(&out_, "func.call ", MlirSymbol(op.Find("callee")->text), "(", JoinNames(op.operands), ")");
      RETURN_IF_ERROR(PrintRemainingAttributes(op, {"callee"}));
      absl::StrAppend(&out_, " : ", MakeFunctionType(op));
      return true;
    }
    if (!absl::ConsumePrefix(&name, "stablehlo.")) return false;
    if (name == "constant") {
      if (!SameType(op.Find("value")->type, op.results[0].type)) return false;
      out_ += "stablehlo.constant";
      RETURN_IF_ERROR(PrintRemainingAttributes(op, {"value"}));
      out_ += ' ';
      if (!AppendMlirAttribute(op.Find("value"), false, &out_)) return MakeAttributeError(op.name, "value");
      return true;
    }
    if (name == "optimization_barrier") {
      if (op.operands.empty()) return false;
      absl::StrAppend(&out_, op.name);
      RETURN_IF_ERROR(PrintRemainingAttributes(op, {}));
      absl::StrAppend(&out_, " ", JoinNames(op.operands));
      PrintTypes(" : ", op.operands);
      return true;
    }
    if (name == "composite") return PrintComposite(op);
    if (name == "dot_general") return PrintDot(op);
    if (name == "convolution") return PrintConvolution(op);
    if (name == "reduce") return PrintReduce(op, depth);
    if (name == "while") return PrintWhile(op, depth);
    const char* format = ShortFormat(op.name);
    if (format == nullptr || !op.regions.empty()) return false;
    return PrintByFormat(op, name, format);
  }

  void PrintTypes(absl::string_view before, absl::Span<const SourceValue* const> values) {
    if (values.empty()) return;
    absl::StrAppend(&out_, before, absl::StrJoin(values, ", ", [](std::string* s, const SourceValue* v) {
      *s += TypeToString(v->type);
    }));
  }

  static bool HasOneType(const SourceOp& op) {
    const SourceType* type = op.results.empty() ? nullptr : op.results[0].type;
    return type != nullptr && op.results.size() == 1 &&
           std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const SourceValue* v) { return SameType(v->type, type); });
  }

  // The words of a format are explained where the parser reads them (text_short_forms.cc).
  absl::StatusOr<bool> PrintByFormat(const SourceOp& op, absl::string_view name, absl::string_view format) {
    absl::StrAppend(&out_, op.name);
    size_t next = 0;
    Names used;
    auto attribute = [&](absl::string_view word) {
      used.push_back(word.substr(word.find(':') + 1));
      return op.Find(used.back());
    };
    for (absl::string_view word : SplitNames(format)) {
      if (word == "o") {
        absl::StrAppend(&out_, " ", Name(op.operands[next++]));
      } else if (word == "O") {
        absl::StrAppend(&out_, out_.back() == '(' || op.operands.empty() ? "" : " ", JoinNames(op.operands));
      } else if (word == "V") {
        for (; next < op.operands.size(); ++next) absl::StrAppend(&out_, " ", Name(op.operands[next]), ",");
      } else if (word == "A") {
        RETURN_IF_ERROR(PrintRemainingAttributes(op, used));
      } else if (word == "SLICE") {
        used.insert(used.end(), {"start_indices", "limit_indices", "strides"});
        ASSIGN_OR_RETURN(std::vector<int64_t> start, ReadDenseIntegers(op.Find("start_indices")));
        ASSIGN_OR_RETURN(std::vector<int64_t> limit, ReadDenseIntegers(op.Find("limit_indices")));
        ASSIGN_OR_RETURN(std::vector<int64_t> stride, ReadDenseIntegers(op.Find("strides")));
        out_ += " [";
        for (size_t i = 0; i < start.size(); ++i) {
          absl::StrAppend(&out_, i ? ", " : "", start[i], ":", limit[i]);
          if (stride[i] != 1) absl::StrAppend(&out_, ":", stride[i]);
        }
        out_ += ']';
      } else if (word == "FORMAT") {
        used.insert(used.end(), {"exponent_bits", "mantissa_bits"});
        absl::StrAppend(&out_, " e", op.Find("exponent_bits")->integer, "m", op.Find("mantissa_bits")->integer);
      } else if (word == "TARGET") {
        used.push_back("call_target_name");
        absl::StrAppend(&out_, " ", MlirSymbol(op.Find("call_target_name")->text));
      } else if (word == "?lower") {
        used.push_back("lower");
        if (op.Find("lower")->integer != 0) out_ += ", lower = true";
      } else if (word == ":R") {
        absl::StrAppend(&out_, " : ", TypeToString(op.results[0].type));
      } else if (word == ":tuple") {
        absl::StrAppend(&out_, " : ", TypeToString(op.results[0].type));
      } else if (word == ":select" && SameType(op.operands[1]->type, op.results[0].type) &&
                 SameType(op.operands[2]->type, op.results[0].type)) {
        absl::StrAppend(&out_, " : ", TypeToString(op.operands[0]->type), ", ", TypeToString(op.results[0].type));
      } else if (word == ":complex" && op.results[0].type->bounds.empty()) {
        absl::StrAppend(&out_, " : ", TypeToString(op.results[0].type));
      } else if (word[0] == ':' && word.size() > 1) {
        absl::StrAppend(
            &out_, " : ",
            TakesOneType(name, format) && HasOneType(op) ? TypeToString(op.results[0].type) : MakeFunctionType(op));
      } else if (word.size() > 1 && word.back() == '=') {
        absl::StrAppend(&out_, " ", word.substr(0, word.size() - 1), " =");
      } else if (absl::StartsWith(word, "I:") || absl::StartsWith(word, "J:")) {
        absl::StrAppend(&out_, out_.back() == '[' ? "" : " ", attribute(word)->integer);
      } else if (absl::StartsWith(word, "L:")) {
        absl::StrAppend(&out_, " ", IntegerList(attribute(word)));
      } else if (absl::StartsWith(word, "S:")) {
        absl::StrAppend(&out_, " ", MlirString(attribute(word)->text));
      } else if (absl::StartsWith(word, "?E:")) {
        const absl::string_view text = attribute(word)->text;
        if (text != "NOTYPE") absl::StrAppend(&out_, ", ", text);
      } else if (absl::StartsWith(word, "E:")) {
        absl::StrAppend(&out_, " ", attribute(word)->text);
      } else {
        absl::StrAppend(&out_, word);
      }
    }
    return true;
  }

  absl::StatusOr<bool> PrintComposite(const SourceOp& op) {
    if (!op.regions.empty()) return false;
    absl::StrAppend(&out_, op.name, " ", MlirString(op.Find("name")->text), op.operands.empty() ? "" : " ",
                    JoinNames(op.operands));
    RETURN_IF_ERROR(PrintRemainingAttributes(op, {"name"}));
    absl::StrAppend(&out_, " : ", MakeFunctionType(op));
    return true;
  }

  absl::Status PrintPrecision(const SourceOp& op) {
    absl::StrAppend(&out_, ", precision = [",
                    absl::StrJoin(op.Find("precision_config")->elements, ", ",
                                  [](std::string* s, const SourceAttr* e) { absl::StrAppend(s, e->text); }),
                    "]");
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PrintDot(const SourceOp& op) {
    absl::StrAppend(&out_, op.name, " ", JoinNames(op.operands));
    Names skip = {"dot_dimension_numbers",      "algorithm",
                  "precision_config",           "lhs_batching_dimensions",
                  "rhs_batching_dimensions",    "lhs_contracting_dimensions",
                  "rhs_contracting_dimensions", "lhs_precision_type",
                  "rhs_precision_type",         "accumulation_type",
                  "lhs_component_count",        "rhs_component_count",
                  "num_primitive_operations",   "allow_imprecise_accumulation"};
    const std::string batch = IntegerList(op.Find("lhs_batching_dimensions"));
    if (batch != "[]") {
      absl::StrAppend(&out_, ", batching_dims = ", batch, " x ", IntegerList(op.Find("rhs_batching_dimensions")));
    }
    absl::StrAppend(&out_, ", contracting_dims = ", IntegerList(op.Find("lhs_contracting_dimensions")), " x ",
                    IntegerList(op.Find("rhs_contracting_dimensions")));
    if (!op.Find("precision_config")->elements.empty()) RETURN_IF_ERROR(PrintPrecision(op));
    if (op.Find("accumulation_type")->type->kind != TypeKind::kNone) {
      // As the generic form writes it, without the mnemonic.
      std::vector<std::string> inherent, discardable;
      std::string bad;
      const Names others = {"precision_config"};
      if (!MlirAttributes(op, others, &inherent, &discardable, &bad)) return MakeAttributeError(op.name, bad);
      for (const std::string& text : inherent) {
        absl::string_view algorithm = text;
        if (absl::ConsumePrefix(&algorithm, "algorithm = #stablehlo.dot_algorithm")) {
          absl::StrAppend(&out_, ", algorithm = ", algorithm);
        }
      }
    }
    RETURN_IF_ERROR(PrintRemainingAttributes(op, skip));
    absl::StrAppend(&out_, " : ", MakeFunctionType(op));
    return true;
  }

  absl::StatusOr<bool> PrintConvolution(const SourceOp& op) {
    std::vector<std::string> inherent, discardable;
    std::string bad;
    if (!MlirAttributes(op, {}, &inherent, &discardable, &bad)) return MakeAttributeError(op.name, bad);
    absl::StrAppend(&out_, op.name, "(", JoinNames(op.operands), ") dim_numbers = ");
    for (const std::string& text : inherent) {
      absl::string_view dims = text;
      if (absl::ConsumePrefix(&dims, "dimension_numbers = #stablehlo.conv<"))
        absl::StrAppend(&out_, dims.substr(0, dims.size() - 1));
    }
    ASSIGN_OR_RETURN(std::vector<int64_t> pads, ReadDenseIntegers(op.Find("padding")));
    ASSIGN_OR_RETURN(std::vector<int64_t> reversal, ReadDenseIntegers(op.Find("window_reversal")));
    std::string pad = "[";
    for (size_t i = 0; i + 1 < pads.size(); i += 2) {
      absl::StrAppend(&pad, i ? ", [" : "[", pads[i], ", ", pads[i + 1], "]");
    }
    absl::StrAppend(&out_, ", window = {stride = ", IntegerList(op.Find("window_strides")), ", pad = ", pad,
                    "], lhs_dilate = ", IntegerList(op.Find("lhs_dilation")),
                    ", rhs_dilate = ", IntegerList(op.Find("rhs_dilation")), ", reverse = [",
                    absl::StrJoin(reversal, ", ", [](std::string* s, int64_t r) { *s += r ? "true" : "false"; }), "]}");
    RETURN_IF_ERROR(PrintRemainingAttributes(
        op, {"dimension_numbers", "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
             "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions",
             "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions", "padding",
             "window_reversal", "window_strides", "lhs_dilation", "rhs_dilation"}));
    absl::StrAppend(&out_, " : ", MakeFunctionType(op));
    return true;
  }

  // Whether the body is one commutative operation on its two arguments, in order.
  static const SourceOp* FindCommutativeBodyOp(const SourceOp& op) {
    static constexpr absl::string_view kCommutative[] = {"stablehlo.add",     "stablehlo.multiply", "stablehlo.maximum",
                                                         "stablehlo.minimum", "stablehlo.and",      "stablehlo.or",
                                                         "stablehlo.xor"};
    const SourceBlock& block = op.regions[0].blocks[0];
    if (op.operands.size() != 2 || block.ops.size() != 2 || block.arguments.size() != 2) return nullptr;
    const SourceOp *inner = block.ops[0], *end = block.ops[1];
    if (std::find(std::begin(kCommutative), std::end(kCommutative), inner->name) == std::end(kCommutative))
      return nullptr;
    const SourceType* element = op.operands[0]->type->inner;
    const bool good = inner->attributes.empty() && inner->operands[0] == &block.arguments[0] &&
                      inner->operands[1] == &block.arguments[1] && end->operands.size() == 1 &&
                      end->operands[0] == &inner->results[0] && end->attributes.empty() && element != nullptr;
    if (!good) return nullptr;
    for (const SourceType* t : {block.arguments[0].type, block.arguments[1].type, inner->results[0].type}) {
      if (t->kind != TypeKind::kTensor || !t->dims.empty() || !SameType(t->inner, element)) return nullptr;
    }
    return inner;
  }

  absl::StatusOr<bool> PrintReduce(const SourceOp& op, int depth) {
    const size_t n = op.operands.size() / 2;
    if (n == 0 || op.regions.size() != 1 || op.regions[0].blocks.size() != 1) return false;
    const SourceBlock& block = op.regions[0].blocks[0];
    if (block.arguments.size() != 2 * n) return false;
    absl::StrAppend(&out_, op.name);
    for (size_t i = 0; i < n; ++i) {
      absl::StrAppend(&out_, i ? ", " : "", "(", Name(op.operands[i]), " init: ", Name(op.operands[n + i]), ")");
    }
    const SourceOp* applied = FindCommutativeBodyOp(op);
    if (applied != nullptr) absl::StrAppend(&out_, " applies ", applied->name);
    absl::StrAppend(&out_, " across dimensions = ", IntegerList(op.Find("dimensions")));
    RETURN_IF_ERROR(PrintRemainingAttributes(op, {"dimensions"}));
    absl::StrAppend(&out_, " : ", MakeFunctionType(op));
    if (applied != nullptr) return true;
    out_ += '\n';
    Indent(depth);
    out_ += " reducer";
    for (size_t i = 0; i < n; ++i) {
      NameArgument(block.arguments[i]);
      NameArgument(block.arguments[n + i]);
      absl::StrAppend(&out_, i ? " (" : "(", Name(&block.arguments[i]), ": ", TypeToString(block.arguments[i].type),
                      ", ", Name(&block.arguments[n + i]), ": ", TypeToString(block.arguments[n + i].type), ")");
    }
    out_ += "  ";
    RETURN_IF_ERROR(PrintRegion(op.regions[0], depth, false));
    return true;
  }

  absl::StatusOr<bool> PrintWhile(const SourceOp& op, int depth) {
    if (op.operands.empty()) return false;
    const auto& condition = op.regions[0].blocks[0];
    const auto& body = op.regions[1].blocks[0];
    absl::StrAppend(&out_, op.name, "(");
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const std::string name = absl::StrCat("%iterArg_", next_argument_++);
      names_[condition.arguments[i].id] = names_[body.arguments[i].id] = name;
      absl::StrAppend(&out_, i ? ", " : "", name, " = ", Name(op.operands[i]));
    }
    out_ += ')';
    PrintTypes(" : ", op.operands);
    RETURN_IF_ERROR(PrintRemainingAttributes(op, {}, " attributes"));
    out_ += '\n';
    Indent(depth);
    out_ += "cond ";
    RETURN_IF_ERROR(PrintRegion(op.regions[0], depth, false));
    out_ += " do ";
    RETURN_IF_ERROR(PrintRegion(op.regions[1], depth, false));
    return true;
  }

  const SourceModule& module_;
  const StablehloTextOptions& options_;
  std::vector<std::string> names_;
  int next_argument_ = 0, next_value_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> PrintStablehlo(const SourceModule& module, const StablehloTextOptions& options) {
  return Printer(module, options).Run();
}

}  // namespace backplane::stablehlo
