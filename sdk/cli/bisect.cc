#include "sdk/cli/bisect.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "core/passes/calls.h"
#include "core/passes/passes.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using host::HostArray;

// Returns the instructions of the entry computation that can be compared: arrays, except parameters and constants.
std::vector<size_t> ComparableInstructions(const Computation& entry) {
  std::vector<size_t> indices;
  size_t index = 0;
  for (const auto& i : entry.instructions()) {
    const Shape& shape = i->shape();
    if (shape.IsArray() && !shape.HasDynamicDimensions() && !i->Is(Opcode::kParameter) && !i->Is(Opcode::kConstant))
      indices.push_back(index);
    ++index;
  }
  return indices;
}

// Returns the program with the instructions at these indices as its results (in one tuple).
absl::StatusOr<std::unique_ptr<Module>> WithResults(const Module& module, absl::Span<const size_t> indices) {
  std::unique_ptr<Module> copy = module.Clone();
  Computation* entry = copy->entry();
  const std::vector<Instruction*> all = entry->Snapshot();
  InstructionSpec tuple;
  tuple.opcode = Opcode::kTuple;
  for (size_t index : indices) tuple.operands.push_back(all[index]);
  BP_ASSIGN_OR_RETURN(Instruction * root, entry->AddChecked(std::move(tuple)));
  entry->set_root(root);
  // The configuration of the old results does not apply.
  ModuleConfig& config = copy->config();
  config.input_output_aliases.clear();
  config.buffer_donors.clear();
  config.result_layout = Shape();
  config.result_memory_kinds.clear();
  RemoveDeadCode remove;
  BP_RETURN_IF_ERROR(remove.Run(copy.get()).status());
  return copy;
}

// Returns a program that consists of one instruction, with its operands as parameters.
absl::StatusOr<std::unique_ptr<Module>> ExtractInstruction(const Instruction& instruction) {
  auto module = std::make_unique<Module>("alone");
  Computation* entry = module->AddComputation("main");
  module->set_entry(entry);
  std::vector<Instruction*> operands;
  std::map<const Instruction*, Instruction*> seen;
  for (const Instruction* operand : instruction.operands()) {
    if (Instruction*& parameter = seen[operand]; parameter == nullptr) {
      InstructionSpec spec;
      spec.opcode = Opcode::kParameter;
      spec.shape = operand->shape();
      spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(seen.size() - 1));
      parameter = entry->Add(std::move(spec));
    }
    operands.push_back(seen[operand]);
  }
  Instruction* copy = entry->AddClone(&instruction, instruction.shape(), operands);
  for (int64_t i = 0; i < static_cast<int64_t>(instruction.called().size()); ++i) {
    copy->set_called(i, module->CloneComputation(instruction.called(i)));
  }
  entry->set_root(copy);
  BP_RETURN_IF_ERROR(VerifyModule(*module));
  return module;
}

struct Values {
  std::vector<HostArray> a, b;
};

absl::StatusOr<Values> Show(const Module& module, absl::Span<const size_t> indices, const Session& a, const Session& b,
                            const std::vector<HostArray>& inputs) {
  BP_ASSIGN_OR_RETURN(const std::unique_ptr<Module> showing, WithResults(module, indices));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(*showing));
  Values values;
  BP_ASSIGN_OR_RETURN(values.a, CompileAndRun(a, program, inputs));
  BP_ASSIGN_OR_RETURN(values.b, CompileAndRun(b, program, inputs));
  if (values.a.size() != indices.size() || values.b.size() != indices.size()) {
    return absl::InternalError("bisect: a plugin returned another number of results than the program has");
  }
  return values;
}

// Runs the instruction alone, with the operands that plugin a computed for it.
absl::Status CompareAlone(const Module& module, const Instruction& instruction, const Session& a, const Session& b,
                          const std::vector<HostArray>& inputs, const Tolerance& tolerance, Culprit* culprit) {
  const Computation& entry = *module.entry();
  std::map<const Instruction*, size_t> index_of;
  size_t index = 0;
  for (const auto& i : entry.instructions()) index_of[i.get()] = index++;
  std::vector<const Instruction*> operands;  // each once, in the order of their first use
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().IsArray()) return absl::UnimplementedError("it has an operand that is not an array");
    if (std::find(operands.begin(), operands.end(), operand) == operands.end()) operands.push_back(operand);
  }
  std::vector<HostArray> arguments(operands.size());
  std::vector<size_t> asked, asked_for;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->Is(Opcode::kParameter)) {
      arguments[i] = inputs[static_cast<size_t>(operands[i]->parameter_number())];
    } else if (operands[i]->Is(Opcode::kConstant)) {
      BP_ASSIGN_OR_RETURN(arguments[i], FromLiteral(operands[i]->literal()));
    } else {
      asked.push_back(index_of[operands[i]]);
      asked_for.push_back(i);
    }
  }
  if (!asked.empty()) {
    BP_ASSIGN_OR_RETURN(const std::unique_ptr<Module> showing, WithResults(module, asked));
    BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(*showing));
    BP_ASSIGN_OR_RETURN(std::vector<HostArray> values, CompileAndRun(a, program, inputs));
    if (values.size() != asked.size()) return absl::InternalError("operands are missing");
    for (size_t i = 0; i < asked.size(); ++i) arguments[asked_for[i]] = std::move(values[i]);
  }
  BP_ASSIGN_OR_RETURN(const std::unique_ptr<Module> alone, ExtractInstruction(instruction));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(*alone));
  BP_ASSIGN_OR_RETURN(const std::vector<HostArray> of_a, CompileAndRun(a, program, arguments));
  BP_ASSIGN_OR_RETURN(const std::vector<HostArray> of_b, CompileAndRun(b, program, arguments));
  if (of_a.size() != 1 || of_b.size() != 1) return absl::InternalError("expected one result");
  BP_ASSIGN_OR_RETURN(culprit->alone, Compare(of_a[0], of_b[0], tolerance));
  culprit->alone_differs = !culprit->alone.agrees();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Culprit> FindFirstDifference(const Module& original, const Session& a, const Session& b,
                                            const std::vector<HostArray>& inputs, const Tolerance& tolerance,
                                            Terminal& terminal, int64_t max_bytes) {
  // Inlines calls. A loop or branch stays one instruction.
  std::unique_ptr<Module> module = original.Clone();
  BP_RETURN_IF_ERROR(InlineAllCalls(module.get()).status());
  const std::vector<Instruction*> all = module->entry()->Snapshot();
  const std::vector<size_t> indices = ComparableInstructions(*module->entry());
  Culprit culprit;
  for (size_t begin = 0; begin < indices.size();) {
    size_t end = begin;
    for (int64_t bytes = 0;
         end < indices.size() && (end == begin || bytes + all[indices[end]]->shape().byte_size() <= max_bytes); ++end) {
      bytes += all[indices[end]]->shape().byte_size();
    }
    terminal.ShowProgress("bisect", begin, indices.size());
    const absl::Span<const size_t> chunk(indices.data() + begin, end - begin);
    BP_ASSIGN_OR_RETURN(const Values values, Show(*module, chunk, a, b, inputs));
    for (size_t i = 0; i < chunk.size(); ++i) {
      ++culprit.compared;
      BP_ASSIGN_OR_RETURN(culprit.difference, Compare(values.a[i], values.b[i], tolerance));
      if (culprit.difference.agrees()) continue;
      const Instruction& instruction = *all[chunk[i]];
      terminal.ShowProgress("bisect", indices.size(), indices.size());
      culprit.instruction = instruction.ToString();
      const OpMetadata& metadata = instruction.metadata();
      culprit.source = metadata.source_file.empty()
                           ? metadata.op_name
                           : absl::StrCat(metadata.op_name, " (", metadata.source_file, ":", metadata.source_line, ")");
      culprit.alone_status = CompareAlone(*module, instruction, a, b, inputs, tolerance, &culprit);
      return culprit;
    }
    begin = end;
  }
  terminal.ShowProgress("bisect", indices.size(), indices.size());
  return culprit;
}

}  // namespace backplane::cli
