#include "core/text/hlo_parser.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/ir/expansion_budget.h"
#include "core/text/attribute_text.h"
#include "core/text/stack_frames.h"
#include "core/text/text_names.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Annotations of XLA that do not affect what a program computes: kept as text.
constexpr absl::string_view kHeaderNotes[] = {"is_scheduled", "allow_spmd_sharding_propagation_to_parameters",
                                              "allow_spmd_sharding_propagation_to_output", "alias_passthrough_params",
                                              "origin_recovery_table"};
constexpr absl::string_view kInstructionNotes[] = {"origin", "statistics", "parameter_replication"};

template <size_t n>
bool Contains(const absl::string_view (&keys)[n], absl::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

class Parser {
 public:
  Parser(absl::string_view text, const HloParseOptions& options)
      : lexer_(text), options_(options), budget_(static_cast<int64_t>(text.size())) {}

  absl::StatusOr<std::unique_ptr<Module>> Parse() {
    RETURN_IF_ERROR(ParseHeader());
    ASSIGN_OR_RETURN(frames_, StackFrames::Parse(lexer_));
    module_->config().stack_frames = frames_.text();
    while (!lexer_.AtEnd()) RETURN_IF_ERROR(ParseComputation());
    if (module_->entry() == nullptr) return lexer_.Error("no ENTRY computation");
    RETURN_IF_ERROR(CheckHeader());
    if (absl::Status s = VerifyModule(*module_); !s.ok())
      return absl::Status(s.code(), absl::StrCat("hlo text: ", s.message()));
    return std::move(module_);
  }

 private:
  // The attributes of one instruction, which follow its operands.
  struct Suffix {
    Attributes attrs;
    std::vector<std::pair<int, Computation*>> called;  // slot, computation
    OpMetadata metadata;
    std::shared_ptr<const Sharding> sharding;
    StringMap frontend;
    std::optional<ResultAccuracy> accuracy;
    StringMap annotations;
    std::string ffi_text;  // of the dictionary
    std::string backend_config;
    size_t backend_config_at = 0;
    bool has_backend_config = false;
    std::vector<Instruction*> control_predecessors;
  };

  // ---- header ----

  absl::Status ParseHeader() {
    if (!lexer_.TakeWord("HloModule")) return lexer_.Error("expected 'HloModule'");
    const absl::string_view name = lexer_.Name();
    if (name.empty()) return lexer_.Error("expected the module's name");
    module_ = std::make_unique<Module>(std::string(name));
    ModuleConfig& config = module_->config();
    while (lexer_.Take(",")) {
      const size_t at = lexer_.position();
      const absl::string_view key = lexer_.Name();
      RETURN_IF_ERROR(lexer_.Expect("=", absl::StrCat("after '", key, "'")));
      if (key == "input_output_alias") {
        RETURN_IF_ERROR(ParseInputOutputAlias());
      } else if (key == "buffer_donor") {
        RETURN_IF_ERROR(ParseBufferDonors());
      } else if (key == "entry_computation_layout") {
        RETURN_IF_ERROR(ParseEntryLayout());
      } else if (key == "replica_count") {
        ASSIGN_OR_RETURN(config.num_replicas, Positive());
      } else if (key == "num_partitions") {
        ASSIGN_OR_RETURN(config.num_partitions, Positive());
      } else if (key == "frontend_attributes") {
        RETURN_IF_ERROR(ParseModuleFrontendAttributes());
      } else if (Contains(kHeaderNotes, key)) {
        ASSIGN_OR_RETURN(config.annotations[std::string(key)], RawValue());
      } else {
        return lexer_.Locate(at, absl::UnimplementedError(absl::StrCat("module attribute '", key, "'")));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Positive() {
    const size_t at = lexer_.position();
    ASSIGN_OR_RETURN(int64_t v, lexer_.Int());
    if (v < 1 || v > INT32_MAX) return lexer_.ErrorAt(at, absl::StrCat("a count must be positive, found ", v));
    return v;
  }

  absl::Status ParseInputOutputAlias() {
    RETURN_IF_ERROR(lexer_.Expect("{", "of aliases"));
    if (lexer_.Take("}")) return absl::OkStatus();
    do {
      InputOutputAlias a;
      ASSIGN_OR_RETURN(a.output_index, lexer_.IntList());
      RETURN_IF_ERROR(lexer_.Expect(":", "after an output index"));
      RETURN_IF_ERROR(lexer_.Expect("(", "of an alias"));
      ASSIGN_OR_RETURN(a.parameter, lexer_.Int());
      RETURN_IF_ERROR(lexer_.Expect(",", "after a parameter number"));
      ASSIGN_OR_RETURN(a.parameter_index, lexer_.IntList());
      if (lexer_.Take(",")) {
        a.must_alias = lexer_.TakeWord("must-alias");
        if (!a.must_alias && !lexer_.TakeWord("may-alias")) return lexer_.Error("expected may-alias or must-alias");
      }
      RETURN_IF_ERROR(lexer_.Expect(")", "of an alias"));
      module_->config().input_output_aliases.push_back(std::move(a));
    } while (lexer_.Take(","));
    return lexer_.Expect("}", "of aliases");
  }

  absl::Status ParseBufferDonors() {
    RETURN_IF_ERROR(lexer_.Expect("{", "of buffer donors"));
    if (lexer_.Take("}")) return absl::OkStatus();
    do {
      BufferDonor d;
      RETURN_IF_ERROR(lexer_.Expect("(", "of a buffer donor"));
      ASSIGN_OR_RETURN(d.parameter, lexer_.Int());
      RETURN_IF_ERROR(lexer_.Expect(",", "after a parameter number"));
      ASSIGN_OR_RETURN(d.parameter_index, lexer_.IntList());
      RETURN_IF_ERROR(lexer_.Expect(")", "of a buffer donor"));
      module_->config().buffer_donors.push_back(std::move(d));
    } while (lexer_.Take(","));
    return lexer_.Expect("}", "of buffer donors");
  }

  absl::Status ParseEntryLayout() {
    entry_layout_at_ = lexer_.position();
    RETURN_IF_ERROR(lexer_.Expect("{", "of the entry layout"));
    ASSIGN_OR_RETURN(Shape parameters, lexer_.Shape());
    if (!parameters.IsTuple()) return lexer_.ErrorAt(entry_layout_at_, "expected parameter shapes in parentheses");
    RETURN_IF_ERROR(lexer_.Expect("->", "of the entry layout"));
    ASSIGN_OR_RETURN(module_->config().result_layout, lexer_.Shape());
    module_->config().parameter_layouts = parameters.tuple_shapes();
    return lexer_.Expect("}", "of the entry layout");
  }

  absl::Status ParseModuleFrontendAttributes() {
    ModuleConfig& config = module_->config();
    ASSIGN_OR_RETURN(config.frontend_attributes, ParseFrontendAttributes(lexer_));
    auto take = [&](const char* key) -> std::optional<std::string> {
      auto it = config.frontend_attributes.find(key);
      if (it == config.frontend_attributes.end()) return std::nullopt;
      std::string value = it->second;
      config.frontend_attributes.erase(it);
      return value;
    };
    config.use_spmd_partitioning = take(kSpmdKey) == "true";
    config.use_shardy_partitioner = take(kShardyKey) == "true";
    if (auto kinds = take(kParameterMemoryKey)) config.parameter_memory_kinds = absl::StrSplit(*kinds, ',');
    if (auto kinds = take(kResultMemoryKey)) config.result_memory_kinds = absl::StrSplit(*kinds, ',');
    return absl::OkStatus();
  }

  // Applies what the header says about the entry, once the entry is known.
  absl::Status CheckHeader() {
    const ModuleConfig& config = module_->config();
    const ProgramShape program = module_->entry()->program_shape();
    if (config.result_layout.element_type() == PrimitiveType::kInvalid) return absl::OkStatus();
    if (config.parameter_layouts != program.parameters || !(config.result_layout == program.result)) {
      return lexer_.ErrorAt(entry_layout_at_,
                            absl::StrCat("entry_computation_layout does not fit the entry ", program.ToString()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> RawValue() {
    if (lexer_.Peek() == '{') {
      ASSIGN_OR_RETURN(absl::string_view raw, lexer_.BalancedBraces());
      return std::string(raw);
    }
    if (lexer_.Peek() == '"') {
      ASSIGN_OR_RETURN(std::string text, lexer_.String());
      return FormatQuoted(text);
    }
    const absl::string_view word = lexer_.Run("_-.");
    if (word.empty()) return lexer_.Error("expected a value");
    return std::string(word);
  }

  // ---- computations ----

  absl::Status ParseComputation() {
    const size_t at = lexer_.position();
    const bool entry = lexer_.TakeWord("ENTRY");
    lexer_.Take("%");
    const std::string name(lexer_.Name());
    if (name.empty()) return lexer_.Error("expected a computation");
    if (computations_.contains(name)) return lexer_.ErrorAt(at, absl::StrCat("computation ", name, " exists already"));
    if (entry && module_->entry() != nullptr) return lexer_.ErrorAt(at, "a second ENTRY computation");
    std::optional<ProgramShape> signature;
    if (lexer_.Peek() == '(') {
      ASSIGN_OR_RETURN(signature, ParseSignature());
    }
    RETURN_IF_ERROR(lexer_.Expect("{", "of a computation"));
    computation_ = module_->AddComputation(name);
    names_.clear();
    Instruction* root = nullptr;
    Instruction* last = nullptr;
    while (!lexer_.Take("}")) {
      if (lexer_.AtEnd()) return lexer_.ErrorAt(at, absl::StrCat("computation ", name, " without its '}'"));
      const size_t line = lexer_.position();
      const bool is_root = lexer_.TakeWord("ROOT");
      if (is_root && root != nullptr) return lexer_.ErrorAt(line, "a second ROOT");
      ASSIGN_OR_RETURN(last, ParseInstruction());
      if (is_root) root = last;
    }
    if (root == nullptr) root = last;
    if (root == nullptr) return lexer_.ErrorAt(at, absl::StrCat("computation ", name, " is empty"));
    computation_->set_root(root);
    for (size_t i = 0; i < computation_->parameters().size(); ++i) {
      if (computation_->parameters()[i] == nullptr)
        return lexer_.ErrorAt(at, absl::StrCat("computation ", name, " lacks parameter ", i));
    }
    const ProgramShape found = computation_->program_shape();
    if (signature && (signature->parameters != found.parameters || !(signature->result == found.result))) {
      return lexer_.ErrorAt(
          at, absl::StrCat("computation ", name, ": signature does not fit the body, which is ", found.ToString()));
    }
    if (entry) module_->set_entry(computation_);
    computations_.emplace(name, computation_);
    if (lexer_.Take(",")) {  // , execution_thread="name"
      if (!lexer_.TakeWord("execution_thread")) return lexer_.Error("expected execution_thread after a computation");
      RETURN_IF_ERROR(lexer_.Expect("=", "after execution_thread"));
      ASSIGN_OR_RETURN(std::string thread, lexer_.String());
      computation_->set_execution_thread(std::move(thread));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ProgramShape> ParseSignature() {
    ProgramShape p;
    RETURN_IF_ERROR(lexer_.Expect("(", "of a signature"));
    if (!lexer_.Take(")")) {
      do {
        lexer_.Take("%");
        if (lexer_.Name().empty()) return lexer_.Error("expected a parameter's name");
        RETURN_IF_ERROR(lexer_.Expect(":", "after a parameter's name"));
        ASSIGN_OR_RETURN(Shape s, lexer_.Shape());
        p.parameters.push_back(std::move(s));
      } while (lexer_.Take(","));
      RETURN_IF_ERROR(lexer_.Expect(")", "of a signature"));
    }
    RETURN_IF_ERROR(lexer_.Expect("->", "of a signature"));
    ASSIGN_OR_RETURN(p.result, lexer_.Shape());
    return p;
  }

  // ---- instructions ----

  absl::StatusOr<Instruction*> ParseInstruction() {
    const size_t at = lexer_.position();
    lexer_.Take("%");
    const std::string name(lexer_.Name());
    if (name.empty()) return lexer_.Error("expected an instruction");
    if (names_.contains(name)) return lexer_.ErrorAt(at, absl::StrCat("instruction ", name, " exists already"));
    RETURN_IF_ERROR(lexer_.Expect("=", absl::StrCat("after ", name)));
    InstructionSpec spec;
    spec.name = name;
    if (lexer_.AtShape()) {
      ASSIGN_OR_RETURN(spec.shape, lexer_.Shape());
    }
    const size_t opcode_at = lexer_.position();
    const absl::string_view opcode_text = lexer_.Name();
    const Async async = SplitAsync(opcode_text);
    const std::optional<Opcode> opcode = ParseOpcode(async.wrapped.empty() ? opcode_text : async.wrapped);
    if (!opcode) {
      return lexer_.Locate(opcode_at, absl::UnimplementedError(absl::StrCat("unknown operation '", opcode_text, "'")));
    }
    spec.opcode = *opcode;
    const bool has_shape = spec.shape.element_type() != PrimitiveType::kInvalid;
    if (!has_shape &&
        (spec.opcode == Opcode::kConstant || spec.opcode == Opcode::kParameter || !async.wrapped.empty())) {
      return lexer_.ErrorAt(opcode_at, absl::StrCat(opcode_text, " needs a shape in front"));
    }
    RETURN_IF_ERROR(lexer_.Expect("(", absl::StrCat("after ", opcode_text)));
    if (async.wrapped.empty() || async.starts) {
      RETURN_IF_ERROR(ParseArguments(&spec));
    } else {
      RETURN_IF_ERROR(ParseOperands(&spec.operands));
    }
    RETURN_IF_ERROR(lexer_.Expect(")", "after operands"));
    Suffix suffix;
    RETURN_IF_ERROR(ParseSuffix(spec, &suffix));
    if (!async.wrapped.empty()) {
      absl::Status s = WrapAsync(async, &spec, &suffix);
      if (!s.ok()) return lexer_.Locate(at, s);
    } else {
      spec.attrs = std::move(suffix.attrs);
      for (const auto& [slot, c] : suffix.called) spec.called.push_back(c);
    }
    spec.metadata = std::move(suffix.metadata);
    const Shape written = spec.shape;
    const Opcode made = spec.opcode;
    absl::StatusOr<Instruction*> added = computation_->AddChecked(std::move(spec));
    if (!added.ok()) return lexer_.Locate(at, added.status());
    Instruction* i = *added;
    // A shape that is not written may be much longer than the instruction.
    if (absl::Status s = budget_.Spend(MeasureBytes(*i)); !s.ok()) return lexer_.Locate(at, s);
    if (has_shape) {
      if (!(written == i->shape())) {
        return lexer_.ErrorAt(at, absl::StrCat(name, ": shape ", written.ToString(), " is written, ",
                                               i->shape().ToString(), " is right"));
      }
      i->mutable_shape() = written;  // with its layout
    }
    i->set_sharding(std::move(suffix.sharding));
    i->mutable_frontend_attributes() = std::move(suffix.frontend);
    i->set_result_accuracy(suffix.accuracy);
    if (!suffix.ffi_text.empty()) NoteFfiText(*i, suffix.ffi_text, &suffix.annotations);
    if (!suffix.annotations.empty()) {
      i->set_annotations(std::make_shared<const StringMap>(std::move(suffix.annotations)));
    }
    i->set_backend_config(std::move(suffix.backend_config));
    for (Instruction* p : suffix.control_predecessors) i->AddControlPredecessor(p);
    if (made == Opcode::kFusion) {
      for (Computation* c : i->called()) c->set_is_fusion(true);
    }
    names_.emplace(name, i);
    return i;
  }

  // "call-start": a wrapped operation in short form, instead of a computation of its own.
  struct Async {
    absl::string_view wrapped;  // empty if the form is not used
    bool starts = false;
    Opcode opcode = Opcode::kAsyncDone;
  };
  static Async SplitAsync(absl::string_view text) {
    if (ParseOpcode(text)) return {};
    if (absl::ConsumeSuffix(&text, "-start")) return {text, true, Opcode::kAsyncStart};
    if (absl::ConsumeSuffix(&text, "-update")) return {text, false, Opcode::kAsyncUpdate};
    if (absl::ConsumeSuffix(&text, "-done")) return {text, false, Opcode::kAsyncDone};
    return {};
  }

  absl::Status WrapAsync(const Async& async, InstructionSpec* spec, Suffix* suffix) {
    const Opcode wrapped = spec->opcode;
    spec->opcode = async.opcode;
    if (!async.starts) return absl::OkStatus();
    const Shape& shape = spec->shape;
    if (!shape.IsTuple() || shape.tuple_size() < 2) {
      return absl::InvalidArgumentError("the shape of an asynchronous start is ((operands), result, ...)");
    }
    Computation* body = module_->AddComputation("async_wrapped");
    body->set_execution_thread(std::string(suffix->attrs.GetString(AttrId::kAsyncExecutionThread)));
    InstructionSpec inner;
    inner.opcode = wrapped;
    inner.shape = shape.tuple_shapes(1);
    for (size_t k = 0; k < spec->operands.size(); ++k) {
      InstructionSpec parameter;
      parameter.opcode = Opcode::kParameter;
      parameter.name = "param";
      parameter.shape = spec->operands[k]->shape();
      parameter.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(k));
      ASSIGN_OR_RETURN(Instruction * p, body->AddChecked(std::move(parameter)));
      RETURN_IF_ERROR(budget_.Spend(MeasureBytes(*p)));
      inner.operands.push_back(p);
    }
    for (const auto& [id, value] : suffix->attrs.entries()) {
      if (id == AttrId::kAsyncExecutionThread)
        spec->attrs.Set(id, value);
      else
        inner.attrs.Set(id, value);
    }
    for (const auto& [slot, c] : suffix->called) inner.called.push_back(c);
    ASSIGN_OR_RETURN(Instruction * root, body->AddChecked(std::move(inner)));
    root->mutable_shape() = shape.tuple_shapes(1);
    body->set_root(root);
    spec->called = {body};
    return absl::OkStatus();
  }

  absl::Status ParseArguments(InstructionSpec* spec) {
    if (spec->opcode == Opcode::kParameter) {
      ASSIGN_OR_RETURN(int64_t number, lexer_.Int());
      parameter_number_ = number;
      return absl::OkStatus();
    }
    if (spec->opcode == Opcode::kConstant) {
      ASSIGN_OR_RETURN(Literal literal, ParseLiteral(lexer_, spec->shape, options_));
      spec->literal = std::make_shared<const Literal>(std::move(literal));
      return absl::OkStatus();
    }
    return ParseOperands(&spec->operands);
  }

  absl::Status ParseOperands(std::vector<Instruction*>* operands) {
    if (lexer_.Peek() == ')') return absl::OkStatus();
    do {
      std::optional<Shape> shape;
      const size_t at = lexer_.position();
      if (lexer_.AtShape()) {
        ASSIGN_OR_RETURN(shape, lexer_.Shape());
      }
      ASSIGN_OR_RETURN(Instruction * operand, ParseInstructionName());
      if (shape && !(*shape == operand->shape())) {
        return lexer_.ErrorAt(at, absl::StrCat("operand ", operand->name(), " is ", operand->shape().ToString(),
                                               ", not ", shape->ToString()));
      }
      operands->push_back(operand);
    } while (lexer_.Take(","));
    return absl::OkStatus();
  }

  absl::StatusOr<Instruction*> ParseInstructionName() {
    const size_t at = lexer_.position();
    lexer_.Take("%");
    const absl::string_view name = lexer_.Name();
    auto it = names_.find(name);
    if (it == names_.end()) return lexer_.ErrorAt(at, absl::StrCat("no instruction '", name, "' before this one"));
    return it->second;
  }

  absl::StatusOr<Computation*> ParseComputationName() {
    const size_t at = lexer_.position();
    lexer_.Take("%");
    const absl::string_view name = lexer_.Name();
    auto it = computations_.find(name);
    if (it == computations_.end())
      return lexer_.ErrorAt(at, absl::StrCat("no computation '", name, "' before this one"));
    return it->second;
  }

  // ---- attributes ----

  absl::Status ParseSuffix(const InstructionSpec& spec, Suffix* suffix) {
    const OpInfo& info = Info(spec.opcode);
    if (spec.opcode == Opcode::kParameter) suffix->attrs.Set(AttrId::kParameterNumber, parameter_number_);
    while (lexer_.Take(",")) {
      const size_t at = lexer_.position();
      const absl::string_view key = lexer_.Name();
      RETURN_IF_ERROR(lexer_.Expect("=", key.empty() ? "of an attribute" : absl::StrCat("after '", key, "'")));
      ASSIGN_OR_RETURN(bool common, ParseCommonAttribute(key, spec.opcode, suffix));
      if (common) continue;
      ASSIGN_OR_RETURN(bool called, ParseCalled(key, suffix));
      if (called) continue;
      ASSIGN_OR_RETURN(bool own, ParseAttribute(lexer_, key, info, &suffix->attrs));
      if (own) continue;
      if (!Contains(kInstructionNotes, key)) {
        return lexer_.Locate(at, absl::UnimplementedError(absl::StrCat("attribute '", key, "' of ", info.text)));
      }
      ASSIGN_OR_RETURN(suffix->annotations[std::string(key)], RawValue());
    }
    std::stable_sort(suffix->called.begin(), suffix->called.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return Complete(spec, suffix);
  }

  absl::StatusOr<bool> ParseCommonAttribute(absl::string_view key, Opcode opcode, Suffix* suffix) {
    if (key == "metadata") {
      ASSIGN_OR_RETURN(suffix->metadata, frames_.ParseMetadata(lexer_));
    } else if (key == "sharding") {
      const size_t at = lexer_.position();
      ASSIGN_OR_RETURN(absl::string_view raw, lexer_.BalancedBraces());
      absl::StatusOr<Sharding> s = ParseSharding(raw);
      if (!s.ok()) return lexer_.Locate(at, s.status());
      suffix->sharding = std::make_shared<const Sharding>(*std::move(s));
    } else if (key == "frontend_attributes") {
      ASSIGN_OR_RETURN(suffix->frontend, ParseFrontendAttributes(lexer_));
    } else if (key == "backend_config") {
      suffix->has_backend_config = true;
      suffix->backend_config_at = lexer_.position();
      ASSIGN_OR_RETURN(suffix->backend_config, ParseRawOrQuoted(lexer_));
    } else if (key == "control-predecessors") {
      RETURN_IF_ERROR(lexer_.Expect("{", "of control predecessors"));
      do {
        ASSIGN_OR_RETURN(Instruction * p, ParseInstructionName());
        suffix->control_predecessors.push_back(p);
      } while (lexer_.Take(","));
      RETURN_IF_ERROR(lexer_.Expect("}", "of control predecessors"));
    } else if (key == "result_accuracy") {
      ASSIGN_OR_RETURN(suffix->accuracy, ParseResultAccuracy(lexer_));
    } else if (key == "async_execution_thread" && opcode != Opcode::kAsyncStart) {  // precedes a wrapped operation
      ASSIGN_OR_RETURN(std::string thread, lexer_.String());
      suffix->attrs.Set(AttrId::kAsyncExecutionThread, std::move(thread));
    } else {
      return false;
    }
    return true;
  }

  absl::StatusOr<bool> ParseCalled(absl::string_view key, Suffix* suffix) {
    static constexpr std::pair<absl::string_view, int> kSlots[] = {
        {"to_apply", 0}, {"calls", 0},   {"condition", 0},        {"body", 1},
        {"select", 0},   {"scatter", 1}, {"true_computation", 0}, {"false_computation", 1}};
    if (key == "branch_computations" || key == "called_computations") {
      RETURN_IF_ERROR(lexer_.Expect("{", "of computations"));
      if (lexer_.Take("}")) return true;
      do {
        ASSIGN_OR_RETURN(Computation * c, ParseComputationName());
        suffix->called.emplace_back(static_cast<int>(suffix->called.size()), c);
      } while (lexer_.Take(","));
      RETURN_IF_ERROR(lexer_.Expect("}", "of computations"));
      return true;
    }
    for (const auto& [name, slot] : kSlots) {
      if (name != key) continue;
      ASSIGN_OR_RETURN(Computation * c, ParseComputationName());
      suffix->called.emplace_back(slot, c);
      return true;
    }
    return false;
  }

  // Fills in what the text omits: empty dimension numbers and groups, f8 types of an algorithm, the kind of the backend
  // config.
  absl::Status Complete(const InstructionSpec& spec, Suffix* suffix) {
    Attributes& attrs = suffix->attrs;
    for (AttrId id : Info(spec.opcode).attributes) {
      if (attrs.Has(id)) continue;
      switch (GetKind(id)) {
        case AttrKind::DotDims:
          attrs.Set(id, DotDimensions());
          break;
        case AttrKind::RaggedDims:
          attrs.Set(id, RaggedDotDimensions());
          break;
        case AttrKind::Groups:
          attrs.Set(id, ReplicaGroups());
          break;
        default:
          break;
      }
    }
    if (const AttrValue* v = attrs.Find(AttrId::kDotAlgorithm);
        v != nullptr && spec.opcode == Opcode::kDot && spec.operands.size() == 2) {
      DotAlgorithm a = ValueAs<DotAlgorithm>(*v);
      ResolveF8Types(spec.operands[0]->shape().element_type(), spec.operands[1]->shape().element_type(), &a);
      attrs.Set(AttrId::kDotAlgorithm, a);
    }
    if (spec.opcode == Opcode::kCall) {
      if (absl::Status s = ExtractComposite(&suffix->frontend, &attrs); !s.ok())
        return lexer_.Locate(lexer_.position(), s);
    }
    if (spec.opcode != Opcode::kCustomCall || !suffix->has_backend_config) return absl::OkStatus();
    std::string text = std::move(suffix->backend_config);
    suffix->backend_config.clear();
    if (attrs.GetEnum<CustomCallApiVersion>(AttrId::kApiVersion) == CustomCallApiVersion::kTypedFfi) {
      absl::StatusOr<FfiDictionary> dictionary = ParseFfiDictionary(text.empty() ? "{}" : text);
      if (!dictionary.ok()) return lexer_.Locate(suffix->backend_config_at, dictionary.status());
      attrs.Set(AttrId::kFfiAttributes, *std::move(dictionary));
      suffix->ffi_text = std::move(text);
    } else {
      attrs.Set(AttrId::kOpaque, std::move(text));
    }
    return absl::OkStatus();
  }

  HloLexer lexer_;
  HloParseOptions options_;
  ExpansionBudget budget_;
  std::unique_ptr<Module> module_;
  StackFrames frames_;
  size_t entry_layout_at_ = 0;
  int64_t parameter_number_ = 0;
  Computation* computation_ = nullptr;
  absl::flat_hash_map<std::string, Computation*> computations_;
  absl::flat_hash_map<std::string, Instruction*> names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> ParseHloModule(absl::string_view text, const HloParseOptions& options) {
  return Parser(text, options).Parse();
}

}  // namespace backplane
