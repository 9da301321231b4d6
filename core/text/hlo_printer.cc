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
    if (k > 0 && k % 5 == 0) absl::StrAppend(out, "/*index=", k, "*/");
    if (options.operand_shapes) absl::StrAppend(out, i.operand(k)->shape().ToString(options.layouts), " ");
    absl::StrAppend(out, "%", i.operand(k)->name());
  }
}

std::string NameList(absl::Span<Computation* const> computations) {
  return absl::StrCat("{",
                      absl::StrJoin(computations, ", ",
                                    [](std::string* s, const Computation* c) { absl::StrAppend(s, "%", c->name()); }),
                      "}");
}

void AppendCalled(const Instruction& i, std::string* out) {
  if (i.called().empty()) return;
  const CalledStyle style = CalledStyleOf(i.opcode(), IsPredicated(i));
  if (style.list) {
    absl::StrAppend(out, ", ", style.keys[0], "=", NameList(i.called()));
    return;
  }
  for (size_t k = 0; k < i.called().size() && k < 2 && !style.keys[k].empty(); ++k) {
    absl::StrAppend(out, ", ", style.keys[k], "=%", i.called()[k]->name());
  }
}

std::string MetadataText(const OpMetadata& m) {
  std::vector<std::string> fields;
  if (!m.op_type.empty()) fields.push_back(absl::StrCat("op_type=", QuotedText(m.op_type)));
  if (!m.op_name.empty()) fields.push_back(absl::StrCat("op_name=", QuotedText(m.op_name)));
  if (!m.source_file.empty()) fields.push_back(absl::StrCat("source_file=", QuotedText(m.source_file)));
  if (m.source_line != 0) fields.push_back(absl::StrCat("source_line=", m.source_line));
  return absl::StrCat("{", absl::StrJoin(fields, " "), "}");
}

bool IsCompositeField(AttrId id) {
  return id == AttrId::kCompositeName || id == AttrId::kCompositeAttributes || id == AttrId::kCompositeVersion;
}

void AppendBackendConfig(const Instruction& i, std::string* out) {
  if (i.attrs().Has(AttrId::kFfiAttributes)) {
    absl::StrAppend(out, ", backend_config=", ToString(i.attrs().Get<FfiDictionary>(AttrId::kFfiAttributes)));
  } else if (i.attrs().Has(AttrId::kOpaque)) {
    absl::StrAppend(out, ", backend_config=", RawOrQuotedText(i.attrs().GetString(AttrId::kOpaque)));
  } else if (!i.backend_config().empty()) {
    absl::StrAppend(out, ", backend_config=", RawOrQuotedText(i.backend_config()));
  }
}

void AppendInstruction(const Instruction& i, const HloPrintOptions& options, std::string* out) {
  absl::StrAppend(out, "%", i.name(), " = ", i.shape().ToString(options.layouts), " ", OpName(i.opcode()), "(");
  AppendOperands(i, options, out);
  *out += ')';
  for (const auto& [id, value] : i.attrs().entries()) {
    if (id == AttrId::kParameterNumber || id == AttrId::kOpaque || id == AttrId::kFfiAttributes || IsCompositeField(id))
      continue;
    std::string text;
    AppendAttribute(id, value, &text);
    if (!text.empty()) absl::StrAppend(out, ", ", text);
  }
  AppendCalled(i, out);
  if (i.sharding() != nullptr) absl::StrAppend(out, ", sharding=", i.sharding()->ToString());
  if (options.frontend_attributes) {
    const StringMap frontend = FrontendAttributesWithComposite(i);
    if (!frontend.empty()) absl::StrAppend(out, ", frontend_attributes=", FrontendAttributesText(frontend));
  }
  if (!i.control_predecessors().empty()) {
    absl::StrAppend(out, ", control-predecessors={",
                    absl::StrJoin(i.control_predecessors(), ", ",
                                  [](std::string* s, const Instruction* p) { absl::StrAppend(s, "%", p->name()); }),
                    "}");
  }
  if (i.result_accuracy()) absl::StrAppend(out, ", result_accuracy=", ResultAccuracyText(*i.result_accuracy()));
  if (options.metadata && (!i.metadata().empty() || i.metadata().source_line != 0)) {
    absl::StrAppend(out, ", metadata=", MetadataText(i.metadata()));
  }
  if (options.backend_config) AppendBackendConfig(i, out);
}

void AppendComputation(const Computation& c, const HloPrintOptions& options, std::string* out) {
  absl::StrAppend(out, c.IsEntry() ? "ENTRY " : "", "%", c.name(), " ", c.program_shape().ToString(), " {\n");
  for (const auto& i : c.instructions()) {
    *out += i.get() == c.root() ? "  ROOT " : "  ";
    AppendInstruction(*i, options, out);
    *out += '\n';
  }
  *out += "}";
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

void AppendHeader(const Module& module, std::string* out) {
  const ModuleConfig& config = module.config();
  absl::StrAppend(out, "HloModule ", module.name());
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
  if (config.num_replicas != 1) absl::StrAppend(out, ", replica_count=", config.num_replicas);
  if (config.num_partitions != 1) absl::StrAppend(out, ", num_partitions=", config.num_partitions);
  StringMap frontend = config.frontend_attributes;
  if (config.use_spmd_partitioning) frontend[kSpmdKey] = "true";
  if (config.use_shardy_partitioner) frontend[kShardyKey] = "true";
  if (!config.parameter_memory_kinds.empty())
    frontend[kParameterMemoryKey] = absl::StrJoin(config.parameter_memory_kinds, ",");
  if (!config.result_memory_kinds.empty()) frontend[kResultMemoryKey] = absl::StrJoin(config.result_memory_kinds, ",");
  if (!frontend.empty()) absl::StrAppend(out, ", frontend_attributes=", FrontendAttributesText(frontend));
  *out += "\n\n";
}

}  // namespace

std::vector<const Computation*> CalleesFirst(const Module& module) {
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
  AppendHeader(module, &out);
  for (const Computation* c : CalleesFirst(module)) {
    AppendComputation(*c, options, &out);
    out += "\n\n";
  }
  return out;
}

std::string Instruction::ToString() const { return PrintInstruction(*this); }
std::string Computation::ToString() const { return PrintComputation(*this); }
std::string Module::ToString() const { return PrintModule(*this); }

}  // namespace backplane
