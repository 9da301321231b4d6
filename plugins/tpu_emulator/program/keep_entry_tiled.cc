#include "plugins/tpu_emulator/program/keep_entry_tiled.h"

#include <algorithm>
#include <cstring>
#include <map>
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

// Whether a chain may read this row-major value by index arithmetic. It must be in memory in any case.
bool IsSource(const Instruction* i) {
  for (; i->Is(Opcode::kReshape); i = i->operand(0)) {
    if (i->operand(0)->Is(Opcode::kBroadcast)) return false;
  }
  switch (i->opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kConvolution:
    case Opcode::kDot:
    case Opcode::kGetTupleElement:
      return true;
    case Opcode::kBroadcast:
      return i->operand(0)->shape().num_elements() * kSmallOperandRatio <= i->shape().num_elements();
    default:
      return false;
  }
}

class Tiler {
 public:
  Tiler(Module* module, absl::Span<const Shape> parameters, const Shape& result)
      : module_(module), entry_(module->entry()), parameters_(parameters) {
    Instruction* root = entry_->root();
    if (root->Is(Opcode::kTuple)) {
      for (int64_t k = 0, leaf = 0; k < root->operand_count(); ++k) {
        AddCandidate(k, leaf, root->operand(k), result.tuple_shapes(k));
        ForEachLeaf(root->operand(k)->shape(), [&leaf](const Shape&, const std::vector<int64_t>&) { ++leaf; });
        ++root_uses_[root->operand(k)];
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
    ChooseSlicedParameters();
    while (!CheckAliases()) {
    }
    for (Instruction* p : entry_->parameters()) {
      if (IsKeptTiled(p)) tiled_parameters_.insert(p);
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
  // A result that may stay tiled.
  struct TiledResult {
    Instruction* value;
    const Shape* shape;  // with layout
    const TileView* view;
    size_t node = 0;
  };

  // A value that results need in tiles: an elementwise operation, an update, or a parameter with that layout. The
  // results of one view share its nodes.
  struct Node {
    Instruction* value;
    const TileView* view;
    int64_t uses = 0;              // by nodes in use, and as a result
    std::vector<int64_t> results;  // those that are this value, by operand of the root
    bool rejected = false;         // no result may need it
    bool changed = false;          // whether it is in `changed_`
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
      results_.emplace(operand, TiledResult{value, &shape, view});
  }

  // ---- Results.

  bool HasView(const Instruction* i, const TileView* view) const {
    auto at = parameter_views_.find(i);
    return at != parameter_views_.end() && at->second == view;
  }

  bool CanUpdate(const Instruction* i, const TileView& view) const {
    return i->Is(Opcode::kDynamicUpdateSlice) && CanSlice(view, DimensionsOf(i->operand(1)->shape()), true);
  }

  // Returns the number of a node, and whether it is new.
  std::pair<size_t, bool> AddNode(Instruction* i, const TileView* view) {
    auto [at, is_new] = node_of_.try_emplace({i, view}, nodes_.size());
    if (is_new) nodes_.push_back({.value = i, .view = view});
    return {at->second, is_new};
  }

  // Calls visit(node) for each operand that a node needs in tiles.
  template <typename Visit>
  void ForEachInput(const Node& node, Visit visit) const {
    const Instruction* i = node.value;
    if (i->Is(Opcode::kParameter)) return;
    for (const Instruction* o : i->operands()) {
      if (auto at = node_of_.find({o, node.view}); at != node_of_.end()) visit(at->second);
      if (i->Is(Opcode::kDynamicUpdateSlice)) return;  // the update itself is row-major
    }
  }

  // Adds a node and those that it needs. Rejects nodes whose operands can neither be computed in tiles nor be read.
  size_t AddNodes(Instruction* value, const TileView* view) {
    const auto [first, first_is_new] = AddNode(value, view);
    if (!first_is_new) return first;
    std::vector<size_t> work{first}, unsupported;
    auto add = [&](Instruction* i) {
      const auto [node, is_new] = AddNode(i, view);
      if (is_new) work.push_back(node);
      return !nodes_[node].rejected;
    };
    while (!work.empty()) {
      const size_t node = work.back();
      work.pop_back();
      const Instruction* i = nodes_[node].value;
      bool supported = true;
      if (i->Is(Opcode::kDynamicUpdateSlice)) {  // a chain of updates ends in a parameter
        Instruction* updated = i->operand(0);
        supported = (HasView(updated, view) || CanUpdate(updated, *view)) && add(updated);
      } else {
        for (Instruction* o : i->operands()) {
          if (o->shape().IsScalar() || IsUniform(o)) continue;
          supported = HasView(o, view) || IsElementwise(o, *view) ? add(o) : view->KeepsRowsContiguous() && IsSource(o);
          if (!supported) break;
        }
      }
      if (!supported) unsupported.push_back(node);
    }
    for (size_t node : unsupported) Reject(node, nullptr);
    return first;
  }

  // Rejects a node and those that need it. Adds those that are results to `results`.
  void Reject(size_t first, std::vector<size_t>* results) {
    std::vector<size_t> work{first};
    while (!work.empty()) {
      const size_t number = work.back();
      work.pop_back();
      Node& node = nodes_[number];
      if (node.rejected) continue;
      node.rejected = true;
      if (!node.results.empty()) results->push_back(number);
      for (const Instruction* user : node.value->users()) {
        if (user->Is(Opcode::kDynamicUpdateSlice) && user->operand(0) != node.value) continue;
        if (auto at = node_of_.find({user, node.view}); at != node_of_.end()) work.push_back(at->second);
      }
    }
  }

  void Use(size_t first) {
    std::vector<size_t> work{first};
    while (!work.empty()) {
      Node& node = nodes_[work.back()];
      work.pop_back();
      if (node.uses++ > 0) continue;
      if (!node.value->Is(Opcode::kParameter)) tiled_views_.try_emplace(node.value, node.view);
      ForEachInput(node, [&](size_t input) { work.push_back(input); });
    }
  }

  // Undoes Use. Notes the values whose users have changed.
  void Release(size_t first) {
    std::vector<size_t> work{first};
    while (!work.empty()) {
      Node& node = nodes_[work.back()];
      work.pop_back();
      if (--node.uses > 0) continue;
      if (auto at = tiled_views_.find(node.value); at != tiled_views_.end() && at->second == node.view)
        tiled_views_.erase(at);
      for (const Instruction* o : node.value->operands()) NoteChange(o);
      for (const Instruction* user : node.value->users()) {
        if (!user->Is(Opcode::kDot)) continue;
        for (const Instruction* o : user->operands()) NoteChange(o);
      }
      ForEachInput(node, [&](size_t input) { work.push_back(input); });
    }
  }

  void NoteChange(const Instruction* i) {
    if (const TileView* view = GetTiledView(i); view != nullptr) NoteChange(node_of_.at({i, view}));
  }
  void NoteChange(size_t number) {
    Node& node = nodes_[number];
    if (!node.changed) changed_.push_back(number);
    node.changed = true;
  }

  void ChooseResults() {
    std::erase_if(results_, [&](const auto& at) {
      return !CanUpdate(at.second.value, *at.second.view) && !IsElementwise(at.second.value, *at.second.view);
    });
    for (auto& [operand, result] : results_) result.node = AddNodes(result.value, result.view);
    std::erase_if(results_, [&](const auto& at) { return nodes_[at.second.node].rejected; });
    for (const auto& [operand, result] : results_) {
      nodes_[result.node].results.push_back(operand);
      Use(result.node);
    }
    for (size_t node = 0; node < nodes_.size(); ++node) NoteChange(node);
    DropResultsWithOtherUses();
  }

  bool IsRootTuple(const Instruction* i) const { return i == entry_->root() && i->Is(Opcode::kTuple); }

  const TileView* GetTiledView(const Instruction* i) const {
    auto at = tiled_views_.find(i);
    return at == tiled_views_.end() ? nullptr : at->second;
  }

  // Whether a value that is computed in tiles has a row-major user.
  bool HasOtherUse(const Node& node) const {
    const Instruction* i = node.value;
    const TileView* view = GetTiledView(i);
    if (view != node.view) return true;  // two results need it in two layouts
    return std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* user) {
      if (IsRootTuple(user)) return node.results.size() != root_uses_.at(i);
      if (GetTiledView(user) == view) return !IsElementwise(user, *view) && user->operand(0) != i;
      return !CanTileDot(*user, GetTiledView(user->operand(0)),
                         user->operand_count() > 1 ? GetTiledView(user->operand(1)) : nullptr);
    });
  }

  void DropResults(const std::vector<size_t>& nodes) {
    for (size_t number : nodes) {
      Node& node = nodes_[number];
      for (int64_t operand : std::exchange(node.results, {})) {
        results_.erase(operand);
        Release(number);
      }
    }
  }

  // Drops results whose values have row-major users. They are better computed in row-major order. Other results may
  // then have row-major users, too.
  void DropResultsWithOtherUses() {
    while (!changed_.empty()) {
      std::vector<size_t> found, dropped;
      for (size_t number : std::exchange(changed_, {})) {
        Node& node = nodes_[number];
        node.changed = false;
        if (node.uses > 0 && !node.value->Is(Opcode::kParameter) && HasOtherUse(node)) found.push_back(number);
      }
      for (size_t number : found) Reject(number, &dropped);
      DropResults(dropped);
    }
  }

  // ---- Arguments.

  bool ReadsSlice(const Instruction* user, const Instruction* p) const {
    return user->Is(Opcode::kDynamicSlice) && user->operand(0) == p &&
           std::count(user->operands().begin(), user->operands().end(), p) == 1 &&
           user->shape().num_elements() * 4 <= user->operand(0)->shape().num_elements() &&
           CanSlice(*parameter_views_.at(p), DimensionsOf(user->shape()), false);
  }

  // Finds the arguments of which only slices are read, in tiles.
  void ChooseSlicedParameters() {
    for (const Instruction* p : entry_->parameters()) {
      if (!parameter_views_.contains(p) || p->IsRoot()) continue;
      const bool some =
          std::any_of(p->users().begin(), p->users().end(), [&](const Instruction* u) { return ReadsSlice(u, p); });
      const bool all = std::all_of(p->users().begin(), p->users().end(), [&](const Instruction* u) {
        return ReadsSlice(u, p) ||
               (u->Is(Opcode::kDot) && CanTileDot(*u, u->operand(0) == p ? parameter_views_.at(p) : nullptr,
                                                  u->operand(1) == p ? parameter_views_.at(p) : nullptr));
      });
      if (some && all) sliced_parameters_.insert(p);
    }
  }

  // Whether an argument stays tiled, for results or for slices of it.
  bool IsKeptTiled(const Instruction* p) const {
    auto view = parameter_views_.find(p);
    if (view == parameter_views_.end()) return false;
    auto node = node_of_.find({p, view->second});
    return sliced_parameters_.contains(p) || (node != node_of_.end() && nodes_[node->second].uses > 0);
  }

  // A result in the memory of an argument must have the argument's layout; otherwise both become row-major. Returns
  // false if anything was changed, and the check has to be repeated.
  bool CheckAliases() {
    for (const InputOutputAlias& a : module_->config().input_output_aliases) {
      if (!a.parameter_index.empty() || a.parameter < 0 ||
          a.parameter >= static_cast<int64_t>(entry_->parameters().size()))
        continue;
      const Instruction* p = entry_->parameter(a.parameter);
      const auto result = results_.find(a.output_index.empty() ? 0 : a.output_index[0]);
      const bool argument_tiled = IsKeptTiled(p), result_tiled = result != results_.end();
      if (!argument_tiled && !result_tiled) continue;
      if (argument_tiled && result_tiled &&
          result->second.shape->Identical(parameters_[static_cast<size_t>(a.parameter)]))
        continue;
      std::vector<size_t> dropped;
      if (result_tiled) {
        const size_t node = result->second.node;
        std::erase(nodes_[node].results, result->first);
        results_.erase(result);
        NoteChange(node);
        Release(node);
      }
      if (auto view = parameter_views_.find(p); view != parameter_views_.end()) {
        if (auto node = node_of_.find({p, view->second}); node != node_of_.end()) Reject(node->second, &dropped);
        parameter_views_.erase(view);
      }
      DropResults(dropped);
      DropResultsWithOtherUses();
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
    // In program order, so that the operands of a value are there before it.
    for (Instruction* i : before) {
      if (const TileView* view = GetTiledView(i); view != nullptr) GetTiled(i, view);
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
      if (!results_.empty()) entry_->set_root(GetTiled(root, results_.at(0).view));
      return;
    }
    std::vector<Instruction*> operands;
    for (int64_t k = 0; k < root->operand_count(); ++k) {
      const auto result = results_.find(k);
      operands.push_back(result == results_.end() ? GetRowMajor(root->operand(k))
                                                  : GetTiled(result->second.value, result->second.view));
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
  std::map<int64_t, TiledResult> results_;                                    // by operand of the root
  absl::flat_hash_map<const Instruction*, size_t> root_uses_;                 // as operands of a tuple at the root
  std::vector<Node> nodes_;
  absl::flat_hash_map<std::pair<const Instruction*, const TileView*>, size_t> node_of_;
  std::vector<size_t> changed_;                                           // nodes that may have another use now
  absl::flat_hash_map<const Instruction*, const TileView*> tiled_views_;  // of the values of nodes in use
  absl::flat_hash_set<const Instruction*> sliced_parameters_, tiled_parameters_, slices_;
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
