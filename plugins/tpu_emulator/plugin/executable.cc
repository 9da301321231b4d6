#include "plugins/tpu_emulator/plugin/executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_lowering.h"
#include "plugins/tpu_emulator/program/keep_entry_tiled.h"
#include "sdk/backend/host_copy.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::tpu {
namespace {

// Generated code may read and write a little past the end of an array.
int64_t BytesWithTail(int64_t bytes) { return (bytes + 127) / 64 * 64; }

template <typename Info>
std::vector<Shape> ShapesOf(const std::vector<Info>& leaves) {
  std::vector<Shape> shapes;
  for (const Info& leaf : leaves) shapes.push_back(leaf.shape);
  return shapes;
}

std::vector<Shape> FlattenToLeaves(const std::vector<Shape>& shapes) {
  std::vector<Shape> leaves;
  for (const Shape& shape : shapes)
    ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { leaves.push_back(leaf); });
  return leaves;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> EmulatorExecutable::Build(
    std::unique_ptr<Module> lowered, std::unique_ptr<const Module> kernels, EmulatorProgramFacts facts,
    int64_t array_side, CustomCallRegistry* custom_calls, const std::vector<engine::jit::ObjectCode>* objects,
    std::vector<std::string> log) {
  std::shared_ptr<EmulatorExecutable> out(new EmulatorExecutable);
  out->kernels_ = std::move(kernels);
  out->facts_ = std::move(facts);
  ASSIGN_OR_RETURN(out->signature_, DescribeEntry(*out->kernels_, LayoutSource::kConfig));
  const std::vector<Shape> arguments = ShapesOf(out->signature_.parameters),
                           results = ShapesOf(out->signature_.outputs);

  // The arguments and results that stay tiled in the program.
  auto in_tiles = [](const std::vector<Shape>& in_program, const std::vector<Shape>& arrays) {
    std::vector<bool> tiles(arrays.size(), false);
    for (size_t k = 0; k < arrays.size() && k < in_program.size(); ++k)
      tiles[k] = IsTiledMemory(in_program[k], arrays[k]);
    return tiles;
  };
  std::vector<Shape> parameter_shapes;
  for (const Instruction* p : lowered->entry()->parameters()) parameter_shapes.push_back(p->shape());
  const std::vector<Shape> program_arguments = FlattenToLeaves(parameter_shapes),
                           program_results = FlattenToLeaves({lowered->entry()->root()->shape()});
  if (program_arguments.size() != arguments.size() || program_results.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat(out->kernels_->name(), ": the kernels have ", arguments.size(),
                                                   " arguments and ", results.size(), " results, the program has ",
                                                   program_arguments.size(), " and ", program_results.size()));
  }
  const std::vector<bool> arguments_in_tiles = in_tiles(program_arguments, arguments),
                          results_in_tiles = in_tiles(program_results, results);
  ArrayLowering lowering(array_side);
  if (!compiler::IsFullyInterpreted(*lowered)) lowering.AssignEntryLayouts(*lowered, arguments, results);
  engine::ProgramOptions options = engine::OptionsForRuntime(custom_calls);
  options.lowering = &lowering;
  options.objects = objects;
  ASSIGN_OR_RETURN(out->program_, engine::Program::Build(std::move(lowered), options, &log));
  // Buffer assignment decides which donors an output can use. A donor that none can use stays with the host.
  out->signature_.SetAliases(out->program_->assignment().output_alias);
  auto either = [](std::vector<bool> a, const std::vector<bool>& b) {
    for (size_t k = 0; k < a.size() && k < b.size(); ++k) a[k] = a[k] || b[k];
    return a;
  };
  RETURN_IF_ERROR(out->PlanLeaves(either(arguments_in_tiles, lowering.reads_device_layout()),
                                  either(results_in_tiles, lowering.writes_device_layout())));
  out->log_ = std::move(log);
  return std::shared_ptr<Executable>(std::move(out));
}

absl::Status EmulatorExecutable::PlanLeaves(const std::vector<bool>& reads, const std::vector<bool>& writes) {
  auto plan = [&](const Shape& shape, bool in_device_layout, TiledCopy::Direction direction) -> absl::StatusOr<Leaf> {
    Leaf leaf;
    if (!shape.IsArray() || shape.num_elements() == 0) return leaf;
    leaf.bytes = in_device_layout ? static_cast<int64_t>(StorageBytes(shape))
                                  : shape.num_elements() * ByteWidth(shape.element_type());
    leaf.access = in_device_layout || IsDenseRowMajor(shape) ? Leaf::Access::kInPlace : Leaf::Access::kCopied;
    // Plan a copy for all leaves: an alias below may require one even for a leaf that could be used in place.
    if (in_device_layout) {
      leaf.copy = TiledCopy::PlanBytes(leaf.bytes);
    } else {
      ASSIGN_OR_RETURN(leaf.copy, TiledCopy::Plan(shape, direction));
    }
    return leaf;
  };
  const std::vector<ParameterInfo>& parameters = signature_.parameters;
  const std::vector<OutputInfo>& outputs = signature_.outputs;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const bool in_device_layout = p < reads.size() && reads[p];
    ASSIGN_OR_RETURN(Leaf leaf, plan(parameters[p].shape, in_device_layout, TiledCopy::Direction::kToRowMajor));
    argument_leaves_.push_back(std::move(leaf));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool in_device_layout = k < writes.size() && writes[k];
    ASSIGN_OR_RETURN(Leaf leaf, plan(outputs[k].shape, in_device_layout, TiledCopy::Direction::kToTiled));
    // Code writes a little past the end of a result. Only device memory has room for that.
    if (outputs[k].memory_kind != "device" && leaf.access == Leaf::Access::kInPlace && !in_device_layout)
      leaf.access = Leaf::Access::kCopied;
    const int32_t alias = outputs[k].alias;
    if (alias >= 0 && leaf.access != Leaf::Access::kNone) {
      Leaf& argument = argument_leaves_[static_cast<size_t>(alias)];
      leaf.alias = alias;
      if (leaf.bytes > argument.bytes) {
        return absl::InternalError(absl::StrCat("result ", k, " takes ", leaf.bytes,
                                                " bytes in the memory of argument ", alias, ", which has ",
                                                argument.bytes));
      }
      // Both must be used in place, or both must be in working memory.
      if (argument.access != leaf.access || !parameters[static_cast<size_t>(alias)].shape.Identical(outputs[k].shape))
        argument.access = leaf.access = Leaf::Access::kCopied;
    }
    result_leaves_.push_back(std::move(leaf));
  }
  auto reserve = [&](Leaf& leaf) {
    if (leaf.access != Leaf::Access::kCopied) return;
    copied_bytes_ += leaf.bytes;
    if (leaf.alias >= 0) {
      leaf.offset = argument_leaves_[static_cast<size_t>(leaf.alias)].offset;
      return;
    }
    leaf.offset = working_bytes_;
    working_bytes_ += BytesWithTail(leaf.bytes);
  };
  for (Leaf& leaf : argument_leaves_) reserve(leaf);
  for (Leaf& leaf : result_leaves_) reserve(leaf);
  return absl::OkStatus();
}

CompiledMemoryStats EmulatorExecutable::memory_stats() const {
  CompiledMemoryStats m = facts_.memory;
  m.generated_code = program_->code_bytes();
  m.total = m.argument + m.output - m.alias + m.temp + m.generated_code;
  return m;
}

std::string EmulatorExecutable::compile_log() const { return absl::StrCat(absl::StrJoin(log_, "\n"), "\n"); }

}  // namespace backplane::tpu
