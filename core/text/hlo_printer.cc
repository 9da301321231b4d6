#include "core/text/hlo_printer.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/attribute_text.h"
#include "core/text/text_names.h"

namespace backplane {
namespace {

std::string FormatName(absl::string_view name, const HloPrintOptions& options) {
  return absl::StrCat(options.percent ? "%" : "", name);
}

void AppendOperands(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  if (i.Is(Opcode::kConstant)) {
    *out += i.literal().ToString(options.constant_limit);
    return;
  }
  if (i.Is(Opcode::kParameter)) {
    absl::StrAppend(out, i.parameter_number());
    return;
  }
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    if (k > 0) *out += ", ";
    if (options.operand_indices && k > 0 && k % 5 == 0) absl::StrAppend(out, "/*index=", k, "*/");
    if (options.operand_shapes) absl::StrAppend(out, i.operand(k)->shape().ToString(options.layouts), " ");
    *out += FormatName(i.operand(k)->name(), options);
  }
}

void AppendCalled(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  if (i.called().empty()) return;
  const CalledStyle style = GetCalledStyle(i.opcode(), IsPredicated(i));
  if (style.list) {
    absl::StrAppend(out, ", ", style.keys[0], "={",
                    absl::StrJoin(i.called(), ", ",
                                  [&](std::string* s, const Computation* c) { *s += FormatName(c->name(), options); }),
                    "}");
    return;
  }
  for (size_t k = 0; k < i.called().size() && k < 2 && !style.keys[k].empty(); ++k) {
    absl::StrAppend(out, ", ", style.keys[k], "=", FormatName(i.called()[k]->name(), options));
  }
}

// With the tables of the module the frame id gives file and line; without them they are printed here.
std::string MetadataText(const OpMetadata& m, bool tables) {
  std::vector<std::string> fields;
  const bool by_frame = tables && m.stack_frame_id != 0;
  if (!m.op_type.empty()) fields.push_back(absl::StrCat("op_type=", FormatQuoted(m.op_type)));
  if (!m.op_name.empty()) fields.push_back(absl::StrCat("op_name=", FormatQuoted(m.op_name)));
  if (!m.source_file.empty() && !by_frame) fields.push_back(absl::StrCat("source_file=", FormatQuoted(m.source_file)));
  if (m.source_line != 0 && !by_frame) fields.push_back(absl::StrCat("source_line=", m.source_line));
  if (!m.more.empty()) fields.push_back(m.more);
  if (by_frame) fields.push_back(absl::StrCat("stack_frame_id=", m.stack_frame_id));
  return absl::StrCat("{", absl::StrJoin(fields, " "), "}");
}

bool IsCompositeField(AttrId id) {
  return id == AttrId::kCompositeName || id == AttrId::kCompositeAttributes || id == AttrId::kCompositeVersion;
}

void AppendBackendConfig(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  if (i.attrs().Has(AttrId::kFfiAttributes)) {
    absl::StrAppend(out, ", backend_config=", FormatFfiAttributes(i, options.annotations));
  } else if (i.attrs().Has(AttrId::kOpaque)) {
    absl::StrAppend(out, ", backend_config=", FormatRawOrQuoted(i.attrs().GetString(AttrId::kOpaque)));
  } else if (!i.backend_config().empty()) {
    absl::StrAppend(out, ", backend_config=", FormatRawOrQuoted(i.backend_config()));
  }
}

// Returns the attributes of an operation in XLA's order: that of the table, except for custom calls.
std::vector<AttrId> PrintOrder(const Instruction& i) {
  if (!i.Is(Opcode::kCustomCall)) return i.info().attributes;
  return {AttrId::kWindow,          AttrId::kConvolutionDims,  AttrId::kFeatureGroupCount,
          AttrId::kBatchGroupCount, AttrId::kOperandPrecision, AttrId::kCustomCallTarget,
          AttrId::kOperandLayouts,  AttrId::kHasSideEffect,    AttrId::kOutputOperandAliases,
          AttrId::kSchedule,        AttrId::kApiVersion};
}

void AppendOwnAttributes(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  for (AttrId id : PrintOrder(i)) {
    const AttrValue* value = i.attrs().Find(id);
    if (value == nullptr || id == AttrId::kParameterNumber || id == AttrId::kOpaque || id == AttrId::kFfiAttributes ||
        id == AttrId::kIsComposite || IsCompositeField(id)) {
      continue;
    }
    std::string text;
    AppendAttribute(id, *value, &text);
    if (!text.empty()) absl::StrAppend(out, ", ", text);
  }
}

void AppendAnnotation(const Instruction& i, const HloPrintOptions& options, const char* key, std::string* out) {
  if (!options.annotations || i.annotations() == nullptr) return;
  auto it = i.annotations()->find(key);
  if (it != i.annotations()->end()) absl::StrAppend(out, ", ", key, "=", it->second);
}

// Returns the operation that an asynchronous start wraps, if its computation contains nothing else.
const Instruction* Wrapped(const Instruction& start, const HloPrintOptions& options) {
  if (!options.short_async || !start.Is(Opcode::kAsyncStart) || start.called().size() != 1) return nullptr;
  const Computation& c = *start.called(0);
  const Instruction* root = c.root();
  const int64_t n = static_cast<int64_t>(c.parameters().size());
  if (c.instruction_count() != n + 1 || root->operand_count() != n || root->Is(Opcode::kParameter)) return nullptr;
  for (int64_t k = 0; k < n; ++k) {
    if (root->operand(k) != c.parameter(k)) return nullptr;
  }
  // Attributes of the start or of the computation cannot be expressed in the short form.
  if (root->sharding() != nullptr || !root->frontend_attributes().empty() || !root->control_predecessors().empty() ||
      root->Is(Opcode::kConstant) || root->Is(Opcode::kAsyncStart) || !root->backend_config().empty() ||
      root->attrs().Has(AttrId::kOpaque) || root->attrs().Has(AttrId::kFfiAttributes) || root->result_accuracy()) {
    return nullptr;
  }
  return root;
}

const Instruction* WrappedOfChain(const Instruction& i, const HloPrintOptions& options) {
  const Instruction* at = &i;
  for (int n = 0; n < 1000 && (at->Is(Opcode::kAsyncUpdate) || at->Is(Opcode::kAsyncDone)); ++n) at = at->operand(0);
  return Wrapped(*at, options);
}

void AppendInstruction(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  absl::StrAppend(out, FormatName(i.name(), options), " = ", i.shape().ToString(options.layouts), " ");
  const Instruction* wrapped = WrappedOfChain(i, options);
  if (wrapped == nullptr) {
    absl::StrAppend(out, OpName(i.opcode()), "(");
  } else {
    const char* half = i.Is(Opcode::kAsyncStart) ? "-start" : i.Is(Opcode::kAsyncUpdate) ? "-update" : "-done";
    absl::StrAppend(out, OpName(wrapped->opcode()), half, "(");
  }
  AppendOperands(i, options, out);
  *out += ')';
  AppendOwnAttributes(i, options, out);
  if (wrapped != nullptr && i.Is(Opcode::kAsyncStart)) {
    AppendOwnAttributes(*wrapped, options, out);
    AppendCalled(*wrapped, options, out);
  } else {
    AppendCalled(i, options, out);
  }
  if (i.attrs().GetBool(AttrId::kIsComposite)) *out += ", is_composite=true";
  AppendAnnotation(i, options, "parameter_replication", out);
  if (i.sharding() != nullptr) absl::StrAppend(out, ", sharding=", i.sharding()->ToString());
  if (options.frontend_attributes) {
    const StringMap frontend = CollectFrontendAttributes(i);
    if (!frontend.empty()) absl::StrAppend(out, ", frontend_attributes=", FormatFrontendAttributes(frontend));
  }
  if (!i.control_predecessors().empty()) {
    absl::StrAppend(out, ", control-predecessors={",
                    absl::StrJoin(i.control_predecessors(), ", ",
                                  [&](std::string* s, const Instruction* p) { *s += FormatName(p->name(), options); }),
                    "}");
  }
  AppendAnnotation(i, options, "statistics", out);
  if (i.result_accuracy()) absl::StrAppend(out, ", result_accuracy=", FormatResultAccuracy(*i.result_accuracy()));
  AppendAnnotation(i, options, "origin", out);
  if (options.metadata && (!i.metadata().empty() || i.metadata().source_line != 0)) {
    const Computation* c = i.parent();
    const bool tables =
        options.annotations && c != nullptr && c->parent() != nullptr && !c->parent()->config().stack_frames.empty();
    absl::StrAppend(out, ", metadata=", MetadataText(i.metadata(), tables));
  }
  if (options.backend_config) AppendBackendConfig(i, options, out);
}

void AppendComputation(const Computation& c, const HloPrintOptions& options, std::string* out) {
  absl::StrAppend(out, c.IsEntry() ? "ENTRY " : "", FormatName(c.name(), options), " ");
  if (options.signatures) absl::StrAppend(out, c.program_shape().ToString(), " ");
  *out += "{\n";
  for (const auto& i : c.instructions()) {
    *out += i.get() == c.root() ? "  ROOT " : "  ";
    AppendInstruction(*i, options, out);
    *out += '\n';
  }
  *out += "}";
  if (!c.execution_thread().empty()) absl::StrAppend(out, ", execution_thread=", FormatQuoted(c.execution_thread()));
}

std::string IndexText(const Ints& index) { return absl::StrCat("{", absl::StrJoin(index, ","), "}"); }

std::string EntryLayoutText(const Module& module) {
  const ModuleConfig& config = module.config();
  const ProgramShape program = module.entry() != nullptr ? module.entry()->program_shape() : ProgramShape();
  std::vector<Shape> parameters = config.parameter_layouts.empty() ? program.parameters : config.parameter_layouts;
  const Shape& result =
      config.result_layout.element_type() == PrimitiveType::kInvalid ? program.result : config.result_layout;
  std::string text = Shape::Tuple(std::move(parameters)).ToString(true);
  return absl::StrCat("{", text, "->", result.ToString(true), "}");
}

void AppendHeader(const Module& module, const HloPrintOptions& options, std::string* out) {
  const ModuleConfig& config = module.config();
  absl::StrAppend(out, "HloModule ", module.name());
  StringMap notes = options.annotations ? config.annotations : StringMap();
  auto note = [&](const char* key) {
    auto it = notes.find(key);
    if (it == notes.end()) return;
    absl::StrAppend(out, ", ", key, "=", it->second);
    notes.erase(it);
  };
  note("is_scheduled");
  note("alias_passthrough_params");
  if (!config.input_output_aliases.empty()) {
    absl::StrAppend(out, ", input_output_alias={ ",
                    absl::StrJoin(config.input_output_aliases, ", ",
                                  [](std::string* s, const InputOutputAlias& a) {
                                    absl::StrAppend(s, IndexText(a.output_index), ": (", a.parameter, ", ",
                                                    IndexText(a.parameter_index), ", ",
                                                    a.must_alias ? "must-alias" : "may-alias", ")");
                                  }),
                    " }");
  }
  if (!config.buffer_donors.empty()) {
    absl::StrAppend(out, ", buffer_donor={ ",
                    absl::StrJoin(config.buffer_donors, ", ",
                                  [](std::string* s, const BufferDonor& d) {
                                    absl::StrAppend(s, "(", d.parameter, ", ", IndexText(d.parameter_index), ")");
                                  }),
                    " }");
  }
  if (!config.parameter_layouts.empty() || config.result_layout.element_type() != PrimitiveType::kInvalid) {
    absl::StrAppend(out, ", entry_computation_layout=", EntryLayoutText(module));
  }
  note("allow_spmd_sharding_propagation_to_parameters");
  note("allow_spmd_sharding_propagation_to_output");
  if (config.num_replicas != 1) absl::StrAppend(out, ", replica_count=", config.num_replicas);
  if (config.num_partitions != 1) absl::StrAppend(out, ", num_partitions=", config.num_partitions);
  StringMap frontend = config.frontend_attributes;
  if (config.use_spmd_partitioning) frontend[kSpmdKey] = "true";
  if (config.use_shardy_partitioner) frontend[kShardyKey] = "true";
  if (!config.parameter_memory_kinds.empty())
    frontend[kParameterMemoryKey] = absl::StrJoin(config.parameter_memory_kinds, ",");
  if (!config.result_memory_kinds.empty()) frontend[kResultMemoryKey] = absl::StrJoin(config.result_memory_kinds, ",");
  if (!frontend.empty()) absl::StrAppend(out, ", frontend_attributes=", FormatFrontendAttributes(frontend));
  while (!notes.empty()) note(std::string(notes.begin()->first).c_str());
  *out += "\n\n";
  if (options.annotations && !config.stack_frames.empty()) absl::StrAppend(out, config.stack_frames, "\n\n");
}

// Returns computations that are called only by asynchronous starts printed in short form.
absl::flat_hash_set<const Computation*> PrintedInShortForm(const Module& module, const HloPrintOptions& options) {
  absl::flat_hash_set<const Computation*> short_form_only, called;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      const bool wrapped = Wrapped(*i, options) != nullptr;
      for (const Computation* callee : i->called()) (wrapped ? short_form_only : called).insert(callee);
    }
  }
  for (const Computation* c : called) short_form_only.erase(c);
  return short_form_only;
}

}  // namespace

HloPrintOptions MakeShortPrintOptions() {
  HloPrintOptions o;
  o.percent = o.signatures = o.operand_indices = o.metadata = false;
  return o;
}

std::vector<const Computation*> SortCalleesFirst(const Module& module) {
  std::vector<const Computation*> order;
  absl::flat_hash_set<const Computation*> seen;
  struct Frame {
    const Computation* computation;
    std::vector<const Computation*> callees;
    size_t next;
  };
  for (const auto& start : module.computations()) {
    std::vector<Frame> stack;
    auto enter = [&](const Computation* c) {
      if (!seen.insert(c).second) return;
      Frame frame{c, {}, 0};
      for (const auto& i : c->instructions())
        frame.callees.insert(frame.callees.end(), i->called().begin(), i->called().end());
      stack.push_back(std::move(frame));
    };
    enter(start.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.callees.size()) {
        enter(top.callees[top.next++]);
      } else {
        order.push_back(top.computation);
        stack.pop_back();
      }
    }
  }
  return order;
}

std::string PrintInstruction(const Instruction& instruction, const HloPrintOptions& options) {
  std::string out;
  AppendInstruction(instruction, options, &out);
  return out;
}

std::string PrintComputation(const Computation& computation, const HloPrintOptions& options) {
  std::string out;
  AppendComputation(computation, options, &out);
  return out;
}

std::string PrintModule(const Module& module, const HloPrintOptions& options) {
  std::string out;
  AppendHeader(module, options, &out);
  const absl::flat_hash_set<const Computation*> short_form_only = PrintedInShortForm(module, options);
  for (const Computation* c : SortCalleesFirst(module)) {
    if (short_form_only.contains(c)) continue;
    AppendComputation(*c, options, &out);
    out += "\n\n";
  }
  return out;
}

std::string Instruction::ToString() const { return PrintInstruction(*this); }
std::string Computation::ToString() const { return PrintComputation(*this); }
std::string Module::ToString() const { return PrintModule(*this); }

}  // namespace backplane
