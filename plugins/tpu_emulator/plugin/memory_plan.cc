#include "plugins/tpu_emulator/plugin/memory_plan.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "sdk/backend/mixed/client.h"

namespace backplane::tpu {
namespace {

// Takes no memory of its own: computed where it is used, or a name for memory that is there.
bool IsFused(const Instruction& i) {
  if (i.info().Has(kElementwise)) return true;
  switch (i.opcode()) {
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kReverse:
    case Opcode::kIota:
    case Opcode::kConstant:
    case Opcode::kTranspose:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptimizationBarrier:
    case Opcode::kAfterAll:
    case Opcode::kParameter:
      return true;
    default:
      return false;
  }
}

Allocation Describe(const Shape& shape, const Instruction& from, const char* kind) {
  Allocation a;
  a.name = absl::StrCat("%", from.name());
  a.operator_name = from.metadata().op_name;
  a.source_file = from.metadata().source_file;
  a.source_line = from.metadata().source_line;
  a.shape = shape.ToString(true);
  a.kind = kind;
  a.padded_bytes = static_cast<int64_t>(mixed::StorageBytes(shape));
  a.unpadded_bytes = (shape.num_elements() * BitWidth(shape.element_type()) + 7) / 8;
  return a;
}

// The most that values made in a computation take at one time, and which they are.
class Walker {
 public:
  explicit Walker(TileShape tile) : tile_(tile) {}

  struct Fullest {
    int64_t bytes = 0;
    std::vector<Allocation> allocations;
  };

  // `kept`: values of the computation that somebody else accounts for.
  Fullest Of(const Computation& computation, const absl::flat_hash_set<const Instruction*>& kept) {
    absl::flat_hash_map<const Instruction*, const Instruction*> last;  // the last reader of each value
    for (const auto& i : computation.instructions()) {
      if (!IsFused(*i)) last[i.get()] = LastUse(computation, *i);
    }
    Fullest fullest;
    int64_t now = 0;
    std::vector<std::pair<const Instruction*, std::vector<Allocation>>> live;
    for (const auto& i : computation.instructions()) {
      if (!IsFused(*i) && kept.count(i.get()) == 0) {
        std::vector<Allocation> made;
        ForEachLeaf(i->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
          if (!leaf.IsArray()) return;
          Shape laid = leaf.WithoutLayout();
          laid.set_layout(DefaultLayout(leaf.element_type(), leaf.dimensions(), tile_));
          made.push_back(Describe(laid, *i, "HLO temp"));
          now += made.back().padded_bytes;
        });
        live.emplace_back(i.get(), std::move(made));
      }
      Fullest inside;
      for (const Computation* called : i->called()) {
        if (i->Is(Opcode::kReduce) || i->Is(Opcode::kSort) || i->Is(Opcode::kScatter) || i->Is(Opcode::kMap)) continue;
        Fullest one = Of(*called, {});
        if (one.bytes > inside.bytes) inside = std::move(one);
      }
      if (now + inside.bytes > fullest.bytes) {
        fullest.bytes = now + inside.bytes;
        fullest.allocations = std::move(inside.allocations);
        for (const auto& [made, allocations] : live) {
          fullest.allocations.insert(fullest.allocations.end(), allocations.begin(), allocations.end());
        }
      }
      for (size_t at = live.size(); at-- > 0;) {
        const auto found = last.find(live[at].first);
        if (found == last.end() || found->second != i.get()) continue;
        for (const Allocation& a : live[at].second) now -= a.padded_bytes;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    return fullest;
  }

 private:
  // The last instruction, in the computation's order, that reads a value or something fused from it.
  const Instruction* LastUse(const Computation& computation, const Instruction& value) {
    absl::flat_hash_set<const Instruction*> same = {&value};
    const Instruction* last = &value;
    bool passed = false;
    for (const auto& i : computation.instructions()) {
      if (i.get() == &value) {
        passed = true;
        continue;
      }
      if (!passed) continue;
      const bool reads = std::any_of(i->operands().begin(), i->operands().end(),
                                     [&](const Instruction* o) { return same.count(o) != 0; });
      if (!reads) continue;
      last = i.get();
      if (IsFused(*i)) same.insert(i.get());
    }
    return last;
  }

  const TileShape tile_;
};

}  // namespace

MemoryPlan PlanMemory(const Module& module, TileShape tile) {
  MemoryPlan plan;
  const ModuleConfig& config = module.config();
  const Computation& entry = *module.entry();
  for (size_t p = 0; p < entry.parameters().size(); ++p) {
    ForEachLeaf(config.parameter_layouts[p], [&](const Shape& leaf, const std::vector<int64_t>&) {
      if (leaf.IsArray())
        plan.allocations.push_back(Describe(leaf, *entry.parameter(static_cast<int64_t>(p)), "Arguments"));
    });
  }
  const Instruction& root = *entry.root();
  int64_t leaf_number = 0;
  ForEachLeaf(config.result_layout, [&](const Shape& leaf, const std::vector<int64_t>& index) {
    const bool aliased = std::any_of(
        config.input_output_aliases.begin(), config.input_output_aliases.end(), [&](const InputOutputAlias& a) {
          return std::equal(a.output_index.begin(), a.output_index.end(), index.begin(), index.end());
        });
    const bool tuple = root.Is(Opcode::kTuple) && leaf_number < static_cast<int64_t>(root.operands().size());
    const Instruction& from = tuple ? *root.operand(leaf_number) : root;
    ++leaf_number;
    if (leaf.IsArray() && !aliased) plan.allocations.push_back(Describe(leaf, from, "Output"));
  });
  for (const Allocation& a : plan.allocations) plan.peak_bytes += a.padded_bytes;
  // Results are counted above, wherever in the program they are made.
  absl::flat_hash_set<const Instruction*> results = {&root};
  if (root.Is(Opcode::kTuple)) results.insert(root.operands().begin(), root.operands().end());
  Walker::Fullest inside = Walker(tile).Of(entry, results);
  plan.peak_bytes += inside.bytes;
  plan.allocations.insert(plan.allocations.end(), inside.allocations.begin(), inside.allocations.end());
  return plan;
}

}  // namespace backplane::tpu
