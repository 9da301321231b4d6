#include "plugins/tpu_emulator/plugin/executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_lowering.h"
#include "plugins/tpu_emulator/program/keep_entry_tiled.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::tpu {
namespace {

// Generated code may read and write a little past the end of an array.
int64_t BytesWithTail(int64_t bytes) { return (bytes + 127) / 64 * 64; }

std::vector<Shape> LeavesWithLayouts(const std::vector<Shape>& shapes) {
  std::vector<Shape> leaves;
  for (const Shape& shape : shapes)
    ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { leaves.push_back(leaf); });
  return leaves;
}

std::string GetMemoryKind(const std::vector<std::string>& kinds, size_t i) {
  return i < kinds.size() && !kinds[i].empty() ? kinds[i] : "device";
}

// Returns the number of a parameter's leaf among all leaves, or -1 if there is no such leaf.
int64_t FindLeaf(const Computation* entry, int64_t parameter, const Ints& index) {
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry->parameters().size())) return -1;
  int64_t number = 0, found = -1;
  for (int64_t p = 0; p <= parameter; ++p) {
    ForEachLeaf(entry->parameter(p)->shape(), [&](const Shape&, const std::vector<int64_t>& i) {
      if (p == parameter && i == index) found = number;
      ++number;
    });
  }
  return found;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> EmulatorExecutable::Build(
    std::unique_ptr<Module> lowered, std::unique_ptr<const Module> kernels, EmulatorProgramFacts facts,
    int64_t array_side, CustomCallRegistry* custom_calls, const std::vector<engine::jit::ObjectCode>* objects,
    std::vector<std::string> log) {
  std::shared_ptr<EmulatorExecutable> out(new EmulatorExecutable);
  out->kernels_ = std::move(kernels);
  out->facts_ = std::move(facts);
  const ModuleConfig& config = out->kernels_->config();
  const Computation* entry = out->kernels_->entry();
  const std::vector<Shape> arguments = LeavesWithLayouts(config.parameter_layouts),
                           results = LeavesWithLayouts({config.result_layout});
  for (size_t p = 0; p < config.parameter_layouts.size(); ++p) {
    ForEachLeaf(config.parameter_layouts[p], [&](const Shape& leaf, const std::vector<int64_t>&) {
      out->parameters_.push_back({leaf, GetMemoryKind(config.parameter_memory_kinds, p), false});
    });
  }
  for (size_t k = 0; k < results.size(); ++k)
    out->outputs_.push_back({results[k], GetMemoryKind(config.result_memory_kinds, k)});
  auto donated_leaf = [&](int64_t parameter, const Ints& index) -> absl::StatusOr<size_t> {
    const int64_t leaf = FindLeaf(entry, parameter, index);
    if (leaf < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(out->kernels_->name(), ": donates a leaf of parameter ", parameter, ", which does not exist"));
    }
    return static_cast<size_t>(leaf);
  };
  for (const InputOutputAlias& a : config.input_output_aliases) {
    ASSIGN_OR_RETURN(const size_t leaf, donated_leaf(a.parameter, a.parameter_index));
    out->parameters_[leaf].donated = true;
  }
  // A donor that no output can use stays with the host. Buffer assignment decides which ones are used.
  for (const BufferDonor& d : config.buffer_donors)
    RETURN_IF_ERROR(donated_leaf(d.parameter, d.parameter_index).status());

  // The arguments and results that stay tiled in the program.
  auto in_tiles = [](const std::vector<Shape>& in_program, const std::vector<Shape>& arrays) {
    std::vector<bool> tiles(arrays.size(), false);
    for (size_t k = 0; k < arrays.size() && k < in_program.size(); ++k)
      tiles[k] = IsTiledMemory(in_program[k], arrays[k]);
    return tiles;
  };
  std::vector<Shape> parameter_shapes;
  for (const Instruction* p : lowered->entry()->parameters()) parameter_shapes.push_back(p->shape());
  const std::vector<bool> arguments_in_tiles = in_tiles(LeavesWithLayouts(parameter_shapes), arguments),
                          results_in_tiles = in_tiles(LeavesWithLayouts({lowered->entry()->root()->shape()}), results);
  ArrayLowering steps(array_side);
  if (!engine::IsFullyInterpreted(*lowered)) steps.AssignEntryLayouts(*lowered, arguments, results);
  engine::ProgramOptions options = engine::OptionsForRuntime(custom_calls);
  options.own_steps = &steps;
  options.objects = objects;
  ASSIGN_OR_RETURN(out->program_, engine::Program::Build(std::move(lowered), options, &log));
  for (int32_t alias : out->program_->assignment().output_alias) {
    if (alias >= 0) out->parameters_[static_cast<size_t>(alias)].donated = true;
  }
  auto either = [](std::vector<bool> a, const std::vector<bool>& b) {
    for (size_t k = 0; k < a.size() && k < b.size(); ++k) a[k] = a[k] || b[k];
    return a;
  };
  RETURN_IF_ERROR(out->PlanLeaves(either(arguments_in_tiles, steps.reads_device_layout()),
                                  either(results_in_tiles, steps.writes_device_layout())));
  out->log_ = std::move(log);
  return std::shared_ptr<Executable>(std::move(out));
}

absl::Status EmulatorExecutable::PlanLeaves(const std::vector<bool>& reads, const std::vector<bool>& writes) {
  auto plan = [&](const Shape& shape, bool in_device_layout, TiledCopy::Direction direction) -> absl::StatusOr<Leaf> {
    Leaf leaf;
    if (!shape.IsArray() || shape.num_elements() == 0) return leaf;
    leaf.bytes = in_device_layout ? static_cast<int64_t>(mixed::StorageBytes(shape))
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
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const bool in_device_layout = p < reads.size() && reads[p];
    ASSIGN_OR_RETURN(Leaf leaf, plan(parameters_[p].shape, in_device_layout, TiledCopy::Direction::kToRowMajor));
    argument_leaves_.push_back(std::move(leaf));
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const bool in_device_layout = k < writes.size() && writes[k];
    ASSIGN_OR_RETURN(Leaf leaf, plan(outputs_[k].shape, in_device_layout, TiledCopy::Direction::kToTiled));
    // Code writes a little past the end of a result. Only device memory has room for that.
    if (outputs_[k].memory_kind != "device" && leaf.access == Leaf::Access::kInPlace && !in_device_layout)
      leaf.access = Leaf::Access::kCopied;
    const int32_t alias = program_->assignment().output_alias[k];
    if (alias >= 0 && leaf.access != Leaf::Access::kNone) {
      Leaf& argument = argument_leaves_[static_cast<size_t>(alias)];
      leaf.alias = alias;
      if (leaf.bytes > argument.bytes) {
        return absl::InternalError(absl::StrCat("result ", k, " takes ", leaf.bytes,
                                                " bytes in the memory of argument ", alias, ", which has ",
                                                argument.bytes));
      }
      // Both must be used in place, or both must be in working memory.
      if (argument.access != leaf.access || !parameters_[static_cast<size_t>(alias)].shape.Identical(outputs_[k].shape))
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
