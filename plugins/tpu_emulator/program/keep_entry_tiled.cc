#include "plugins/tpu_emulator/program/keep_entry_tiled.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "plugins/tpu_emulator/program/tile_view.h"
#include "plugins/tpu_emulator/program/tiled_dot.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kSmallOperandRatio = 8;  // an operand this many times smaller than its chain is small

bool SameDims(const Instruction* i, const TileView& view) {
  return i->shape().IsArray() &&
         std::equal(view.dims.begin(), view.dims.end(), i->shape().dimensions().begin(), i->shape().dimensions().end());
}

bool IsElementwise(const Instruction* i, const TileView& view) {
  if (!i->info().Has(OpTrait::kElementwise) || i->HasSideEffect() || !i->called().empty() || !SameDims(i, view) ||
      !i->control_predecessors().empty() || i->operand_count() == 0) {
    return false;
  }
  return std::all_of(i->operands().begin(), i->operands().end(),
                     [&](const Instruction* o) { return SameDims(o, view) || o->shape().IsScalar(); });
}

// Whether all elements are equal to one scalar.
bool IsUniform(const Instruction* i) {
  if (i->Is(Opcode::kBroadcast)) return i->operand(0)->shape().IsScalar();
  return FindUniformConstant(i) != nullptr;
}

std::vector<int64_t> DimensionsOf(const Shape& shape) { return {shape.dimensions().begin(), shape.dimensions().end()}; }

class Tiler {
 public:
  Tiler(Module* module, absl::Span<const Shape> parameters, const Shape& result)
      : module_(module), entry_(module->entry()), parameters_(parameters) {
    Instruction* root = entry_->root();
    if (root->Is(Opcode::kTuple)) {
      for (int64_t k = 0, leaf = 0; k < root->operand_count(); ++k) {
        AddCandidate(k, leaf, root->operand(k), result.tuple_shapes(k));
        ForEachLeaf(root->operand(k)->shape(), [&leaf](const Shape&, const std::vector<int64_t>&) { ++leaf; });
      }
    } else if (root->shape().IsArray()) {
      AddCandidate(0, 0, root, result);
    }
    for (Instruction* p : entry_->parameters()) {
      if (!p->shape().IsArray()) continue;
      const Shape& shape = parameters[static_cast<size_t>(p->parameter_number())];
      if (const TileView* view = FindView(shape); view != nullptr) parameter_views_[p] = view;
    }
  }

  bool Run(std::vector<std::string>* log) {
    ChooseResults();
    ChooseParameters();
    while (!CheckAliases()) {
    }
    if (results_.empty() && tiled_parameters_.empty()) return false;
    if (log != nullptr) {
      log->push_back(
          absl::StrCat("kept tiled: ", tiled_parameters_.size(), " arguments and ", results_.size(), " results"));
    }
    Rewrite();
    return true;
  }

 private:
  // A candidate for a result that stays tiled, and the values that are computed in tiles for it.
  struct TiledResult {
    int64_t operand;  // of the root tuple
    Instruction* value;
    const Shape* shape;  // with layout
    const TileView* view;
    absl::flat_hash_set<const Instruction*> tiled;  // elementwise operations and updates
    absl::flat_hash_set<Instruction*> sources;      // parameters with the layout of the result
  };

  const TileView* FindView(const Shape& shape) {
    std::optional<TileView> view = TileView::Of(shape);
    if (!view.has_value()) return nullptr;
    for (const auto& v : views_) {
      if (*v == *view) return v.get();
    }
    views_.push_back(std::make_unique<TileView>(*std::move(view)));
    return views_.back().get();
  }

  void AddCandidate(int64_t operand, int64_t leaf, Instruction* value, const Shape& shape) {
    const std::vector<std::string>& kinds = module_->config().result_memory_kinds;
    const size_t k = static_cast<size_t>(leaf);
    if (k < kinds.size() && !kinds[k].empty() && kinds[k] != "device")
      return;  // generated code may write a little past the end of a result
    if (const TileView* view = FindView(shape); view != nullptr)
      results_.push_back({operand, value, &shape, view, {}, {}});
  }

  // ---- Results.

  bool HasView(const Instruction* i, const TileView* view) const {
    auto at = parameter_views_.find(i);
    return at != parameter_views_.end() && at->second == view;
  }

  // Whether a chain may read this row-major value by index arithmetic. It must be in memory in any case.
  static bool IsSource(const Instruction* i) {
    switch (i->opcode()) {
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kConvolution:
      case Opcode::kDot:
      case Opcode::kGetTupleElement:
        return true;
      case Opcode::kBroadcast:
        return i->operand(0)->shape().num_elements() * kSmallOperandRatio <= i->shape().num_elements();
      case Opcode::kReshape:
        return IsSource(i->operand(0)) && !i->operand(0)->Is(Opcode::kBroadcast);
      default:
        return false;
    }
  }

  bool CollectChain(Instruction* i, TiledResult& result) const {
    if (result.tiled.contains(i) || IsUniform(i)) return true;
    if (HasView(i, result.view)) {
      result.sources.insert(i);
      return true;
    }
    if (!IsElementwise(i, *result.view)) return result.view->KeepsRowsContiguous() && IsSource(i);
    result.tiled.insert(i);
    return std::all_of(i->operands().begin(), i->operands().end(),
                       [&](Instruction* o) { return o->shape().IsScalar() || CollectChain(o, result); });
  }

  // Collects a chain of updates that ends in a parameter.
  bool CollectUpdates(Instruction* i, TiledResult& result) const {
    if (HasView(i, result.view)) {
      result.sources.insert(i);
      return true;
    }
    if (!i->Is(Opcode::kDynamicUpdateSlice) || !CanSlice(*result.view, DimensionsOf(i->operand(1)->shape()), true))
      return false;
    result.tiled.insert(i);
    return CollectUpdates(i->operand(0), result);
  }

  void ChooseResults() {
    std::erase_if(results_, [&](TiledResult& result) {
      if (result.value->Is(Opcode::kDynamicUpdateSlice)) return !CollectUpdates(result.value, result);
      return !IsElementwise(result.value, *result.view) || !CollectChain(result.value, result);
    });
    while (DropResultsWithOtherUses()) {
    }
  }

  bool IsRootTuple(const Instruction* i) const { return i == entry_->root() && i->Is(Opcode::kTuple); }

  const TileView* GetTiledView(const Instruction* i) const {
    for (const TiledResult& result : results_) {
      if (result.tiled.contains(i)) return result.view;
    }
    return nullptr;
  }

  // Drops results whose values have row-major users. They are better computed in row-major order.
  bool DropResultsWithOtherUses() {
    absl::flat_hash_map<const Instruction*, const TileView*> tiled_views;
    for (const TiledResult& result : results_) {
      for (const Instruction* i : result.tiled) tiled_views.try_emplace(i, result.view);
    }
    auto view = [&](const Instruction* i) {
      auto at = tiled_views.find(i);
      return at == tiled_views.end() ? nullptr : at->second;
    };
    auto has_other_use = [&](const Instruction* i, const TiledResult& result) {
      if (view(i) != result.view) return true;  // two results need it in two layouts
      return std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* user) {
        if (IsRootTuple(user)) {
          return static_cast<int64_t>(std::count_if(results_.begin(), results_.end(), [&](const TiledResult& w) {
                   return w.value == i && w.view == result.view;
                 })) != std::count(user->operands().begin(), user->operands().end(), i);
        }
        if (view(user) == result.view) return !IsElementwise(user, *result.view) && user->operand(0) != i;
        return !CanTileDot(*user, view(user->operand(0)), user->operand_count() > 1 ? view(user->operand(1)) : nullptr);
      });
    };
    const size_t before = results_.size();
    std::vector<bool> drop;
    for (const TiledResult& result : results_) {
      drop.push_back(std::any_of(result.tiled.begin(), result.tiled.end(),
                                 [&](const Instruction* i) { return has_other_use(i, result); }));
    }
    size_t n = 0;
    std::erase_if(results_, [&](const TiledResult&) { return drop[n++]; });
    return results_.size() != before;
  }

  // ---- Arguments.

  bool ReadsSlice(const Instruction* user, const Instruction* p) const {
    return user->Is(Opcode::kDynamicSlice) && user->operand(0) == p &&
           std::count(user->operands().begin(), user->operands().end(), p) == 1 &&
           user->shape().num_elements() * 4 <= user->operand(0)->shape().num_elements() &&
           CanSlice(*parameter_views_.at(p), DimensionsOf(user->shape()), false);
  }

  void ChooseParameters() {
    tiled_parameters_.clear();
    for (const TiledResult& result : results_) tiled_parameters_.insert(result.sources.begin(), result.sources.end());
    for (Instruction* p : entry_->parameters()) {
      if (!parameter_views_.contains(p) || tiled_parameters_.contains(p) || rejected_parameters_.contains(p) ||
          p->IsRoot())
        continue;
      const bool some =
          std::any_of(p->users().begin(), p->users().end(), [&](const Instruction* u) { return ReadsSlice(u, p); });
      const bool all = std::all_of(p->users().begin(), p->users().end(), [&](const Instruction* u) {
        return ReadsSlice(u, p) ||
               (u->Is(Opcode::kDot) && CanTileDot(*u, u->operand(0) == p ? parameter_views_.at(p) : nullptr,
                                                  u->operand(1) == p ? parameter_views_.at(p) : nullptr));
      });
      if (some && all) tiled_parameters_.insert(p);
    }
  }

  // A result in the memory of an argument must have the argument's layout; otherwise both become row-major. Returns
  // false if anything was changed, and the check has to be repeated.
  bool CheckAliases() {
    for (const InputOutputAlias& a : module_->config().input_output_aliases) {
      if (!a.parameter_index.empty() || a.parameter < 0 ||
          a.parameter >= static_cast<int64_t>(entry_->parameters().size()))
        continue;
      Instruction* p = entry_->parameter(a.parameter);
      const int64_t operand = a.output_index.empty() ? 0 : a.output_index[0];
      auto result =
          std::find_if(results_.begin(), results_.end(), [&](const TiledResult& w) { return w.operand == operand; });
      const bool argument_tiled = tiled_parameters_.contains(p), result_tiled = result != results_.end();
      if (!argument_tiled && !result_tiled) continue;
      if (argument_tiled && result_tiled && result->shape->Identical(parameters_[static_cast<size_t>(a.parameter)]))
        continue;
      rejected_parameters_.insert(p);
      parameter_views_.erase(p);
      std::erase_if(results_, [&](const TiledResult& w) { return w.operand == operand || w.sources.contains(p); });
      while (DropResultsWithOtherUses()) {
      }
      ChooseParameters();
      return false;
    }
    return true;
  }

  // ---- Rewriting the program.

  Instruction* GetTiled(Instruction* i, const TileView* view) {
    auto [at, fresh] = tiled_values_.try_emplace({i, view}, nullptr);
    if (!fresh) return at->second;
    Instruction* tiled = MakeTiled(i, view);
    tiled_values_[{i, view}] = tiled;
    return tiled;
  }

  const TileView* GetView(const Instruction* i) const {
    if (auto at = parameter_views_.find(i); at != parameter_views_.end() && tiled_parameters_.contains(i))
      return at->second;
    return GetTiledView(i);
  }

  // Returns the value in row-major order.
  Instruction* GetRowMajor(Instruction* i) {
    const TileView* view = GetView(i);
    if (view == nullptr) return i;
    if (auto at = row_major_values_.find(i); at != row_major_values_.end()) return at->second;
    return row_major_values_[i] = ReadFromTiles(entry_, *view, GetTiled(i, view));
  }

  Instruction* MakeTiled(Instruction* i, const TileView* view) {
    if (tiled_parameters_.contains(i) && HasView(i, view)) return i;
    const Shape shape = view->PhysicalShape(i->shape().element_type());
    if (const Literal* value = FindUniformConstant(i); value != nullptr && i->Is(Opcode::kConstant)) {
      Literal one(Shape::Scalar(shape.element_type()));  // `value` may be an array
      std::memcpy(one.mutable_bytes(), value->bytes(), static_cast<size_t>(ByteWidth(shape.element_type())));
      return MakeBroadcast(entry_, i, MakeConstant(entry_, i, std::move(one)), shape, {});
    }
    if (IsUniform(i)) return MakeBroadcast(entry_, i, i->operand(0), shape, {});
    if (GetTiledView(i) != view) return WriteToTiles(entry_, *view, GetRowMajor(i));
    std::vector<Instruction*> operands;
    if (i->Is(Opcode::kDynamicUpdateSlice)) {
      // Use the row-major update: an argument that stays tiled already has the shape of its memory.
      Instruction* update = GetRowMajor(i->operand(1));
      const std::vector<int64_t> slice = DimensionsOf(update->shape());
      operands = {GetTiled(i->operand(0), view), WriteSliceToTiles(entry_, *view, slice, update)};
      for (Instruction* s : MakeMemorySliceStarts(entry_, *view, slice, i->operands().subspan(2)))
        operands.push_back(s);
    } else {
      for (Instruction* o : i->operands()) operands.push_back(o->shape().IsScalar() ? o : GetTiled(o, view));
    }
    return entry_->AddClone(i, shape, operands);
  }

  // Returns the value of an instruction that reads tiled operands, or null if it needs row-major ones.
  Instruction* LowerToTiles(Instruction* user) {
    auto memory = [&](Instruction* o) -> DotOperand {
      const TileView* view = GetView(o);
      return view == nullptr ? DotOperand{o, nullptr} : DotOperand{GetTiled(o, view), view};
    };
    if (user->Is(Opcode::kDot)) {
      const DotOperand lhs = memory(user->operand(0)), rhs = memory(user->operand(1));
      return CanTileDot(*user, lhs.view, rhs.view) ? MakeTiledDot(entry_, *user, lhs, rhs) : nullptr;
    }
    if (!tiled_parameters_.contains(user->operand(0)) || !slices_.contains(user)) return nullptr;
    const DotOperand from = memory(user->operand(0));
    const std::vector<int64_t> slice = DimensionsOf(user->shape()), sizes = ComputeMemorySliceSizes(*from.view, slice);
    std::vector<Instruction*> operands{from.value};
    for (Instruction* s : MakeMemorySliceStarts(entry_, *from.view, slice, user->operands().subspan(1)))
      operands.push_back(s);
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, Ints(sizes.begin(), sizes.end()));
    Instruction* memory_slice = Make(entry_, user, Opcode::kDynamicSlice, Shape(user->shape().element_type(), sizes),
                                     std::move(operands), std::move(attrs));
    return ReadSliceFromTiles(entry_, *from.view, slice, memory_slice);
  }

  void Rewrite() {
    std::vector<Instruction*> readers;  // users of tiled values that are not tiled themselves
    absl::flat_hash_set<const Instruction*> visited;
    auto visit_users = [&](const Instruction* i) {
      for (Instruction* user : i->users()) {
        if (!IsRootTuple(user) && GetTiledView(user) == nullptr && visited.insert(user).second) readers.push_back(user);
      }
    };
    for (Instruction* p : entry_->parameters()) {
      if (!tiled_parameters_.contains(p)) continue;
      visit_users(p);
      for (const Instruction* user : p->users()) {
        if (ReadsSlice(user, p)) slices_.insert(user);
      }
    }
    const std::vector<Instruction*> before = entry_->Snapshot();
    for (const Instruction* i : before) {
      if (GetTiledView(i) != nullptr) visit_users(i);
    }
    for (Instruction* p : entry_->parameters()) {
      if (!tiled_parameters_.contains(p)) continue;
      p->mutable_shape() = parameter_views_.at(p)->PhysicalShape(p->shape().element_type());
    }
    for (Instruction* reader : readers) {
      if (Instruction* read = LowerToTiles(reader); read != nullptr) {
        Replace(reader, read);
        continue;
      }
      for (int64_t k = 0; k < reader->operand_count(); ++k) {
        Instruction* row_major = GetRowMajor(reader->operand(k));
        if (row_major != reader->operand(k)) reader->ReplaceOperand(k, row_major);
      }
    }
    RewriteRoot();
    entry_->RemoveDead();
    entry_->SortTopologically();
  }

  void RewriteRoot() {
    Instruction* root = entry_->root();
    if (!root->Is(Opcode::kTuple)) {
      if (!results_.empty()) entry_->set_root(GetTiled(results_[0].value, results_[0].view));
      return;
    }
    std::vector<Instruction*> operands;
    for (int64_t k = 0; k < root->operand_count(); ++k) {
      auto result =
          std::find_if(results_.begin(), results_.end(), [&](const TiledResult& w) { return w.operand == k; });
      operands.push_back(result == results_.end() ? GetRowMajor(root->operand(k))
                                                  : GetTiled(result->value, result->view));
    }
    std::vector<Shape> shapes;
    for (const Instruction* o : operands) shapes.push_back(o->shape());
    entry_->set_root(Make(entry_, root, Opcode::kTuple, Shape::Tuple(std::move(shapes)), std::move(operands)));
  }

  Module* module_;
  Computation* entry_;
  absl::Span<const Shape> parameters_;
  std::vector<std::unique_ptr<TileView>> views_;
  absl::flat_hash_map<const Instruction*, const TileView*> parameter_views_;  // of parameters
  std::vector<TiledResult> results_;
  absl::flat_hash_set<Instruction*> tiled_parameters_, rejected_parameters_;  // parameters
  absl::flat_hash_set<const Instruction*> slices_;
  absl::flat_hash_map<std::pair<const Instruction*, const TileView*>, Instruction*> tiled_values_;
  absl::flat_hash_map<const Instruction*, Instruction*> row_major_values_;
};

}  // namespace

bool KeepEntryTiled(Module* module, absl::Span<const Shape> parameters, const Shape& result,
                    std::vector<std::string>* log) {
  return Tiler(module, parameters, result).Run(log);
}

bool IsTiledMemory(const Shape& in_program, const Shape& array) {
  return array.IsArray() && in_program.IsArray() && in_program.dimensions() != array.dimensions();
}

}  // namespace backplane::tpu
