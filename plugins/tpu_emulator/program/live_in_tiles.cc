#include "plugins/tpu_emulator/program/live_in_tiles.h"

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

constexpr int64_t kSmallShare = 8;  // of a chain's elements: an operand of fewer is small

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

// One scalar everywhere.
bool IsFill(const Instruction* i) {
  if (i->Is(Opcode::kBroadcast)) return i->operand(0)->shape().IsScalar();
  return UniformConstant(i) != nullptr;
}

std::vector<int64_t> PartOf(const Shape& shape) { return {shape.dimensions().begin(), shape.dimensions().end()}; }

class Tiler {
 public:
  Tiler(Module* module, absl::Span<const Shape> parameters, const Shape& result)
      : module_(module), entry_(module->entry()), parameters_(parameters) {
    Instruction* root = entry_->root();
    if (root->Is(Opcode::kTuple)) {
      for (int64_t k = 0, leaf = 0; k < root->operand_count(); ++k) {
        AddWish(k, leaf, root->operand(k), result.tuple_shapes(k));
        ForEachLeaf(root->operand(k)->shape(), [&leaf](const Shape&, const std::vector<int64_t>&) { ++leaf; });
      }
    } else if (root->shape().IsArray()) {
      AddWish(0, 0, root, result);
    }
    for (Instruction* p : entry_->parameters()) {
      if (!p->shape().IsArray()) continue;
      const Shape& shape = parameters[static_cast<size_t>(p->parameter_number())];
      if (const TileView* view = ViewOf(shape); view != nullptr) view_of_[p] = view;
    }
  }

  bool Run(std::vector<std::string>* log) {
    ChooseResults();
    ChooseParameters();
    while (!AliasesAgree()) {
    }
    if (wishes_.empty() && chosen_.empty()) return false;
    if (log != nullptr) {
      log->push_back(absl::StrCat("in tiles: ", chosen_.size(), " arguments and ", wishes_.size(), " results"));
    }
    Rewrite();
    return true;
  }

 private:
  // A result that may stay in tiles: what is computed there for it.
  struct Wish {
    int64_t operand;  // of the root
    Instruction* value;
    const Shape* shape;  // with its layout
    const TileView* view;
    absl::flat_hash_set<const Instruction*> inside;  // elementwise operations and updates
    absl::flat_hash_set<Instruction*> sources;       // parameters that lie as the result does
  };

  const TileView* ViewOf(const Shape& shape) {
    std::optional<TileView> view = TileView::Of(shape);
    if (!view.has_value()) return nullptr;
    for (const auto& v : views_) {
      if (*v == *view) return v.get();
    }
    views_.push_back(std::make_unique<TileView>(*std::move(view)));
    return views_.back().get();
  }

  void AddWish(int64_t operand, int64_t leaf, Instruction* value, const Shape& shape) {
    const std::vector<std::string>& kinds = module_->config().result_memory_kinds;
    const size_t k = static_cast<size_t>(leaf);
    if (k < kinds.size() && !kinds[k].empty() && kinds[k] != "device") return;  // generated code needs room behind it
    if (const TileView* view = ViewOf(shape); view != nullptr)
      wishes_.push_back({operand, value, &shape, view, {}, {}});
  }

  // ---- results

  bool LiesSo(const Instruction* i, const TileView* view) const {
    auto at = view_of_.find(i);
    return at != view_of_.end() && at->second == view;
  }

  // What a chain may read out of rows: arrays that are in memory anyhow.
  static bool IsSource(const Instruction* i) {
    switch (i->opcode()) {
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kConvolution:
      case Opcode::kDot:
      case Opcode::kGetTupleElement:
        return true;
      case Opcode::kBroadcast:
        return i->operand(0)->shape().num_elements() * kSmallShare <= i->shape().num_elements();
      case Opcode::kReshape:
        return IsSource(i->operand(0)) && !i->operand(0)->Is(Opcode::kBroadcast);
      default:
        return false;
    }
  }

  bool Grow(Instruction* i, Wish& wish) const {
    if (wish.inside.contains(i) || IsFill(i)) return true;
    if (LiesSo(i, wish.view)) {
      wish.sources.insert(i);
      return true;
    }
    if (!IsElementwise(i, *wish.view)) return wish.view->KeepsRuns() && IsSource(i);
    wish.inside.insert(i);
    return std::all_of(i->operands().begin(), i->operands().end(),
                       [&](Instruction* o) { return o->shape().IsScalar() || Grow(o, wish); });
  }

  // An update, or one of an update.
  bool GrowUpdate(Instruction* i, Wish& wish) const {
    if (LiesSo(i, wish.view)) {
      wish.sources.insert(i);
      return true;
    }
    if (!i->Is(Opcode::kDynamicUpdateSlice) || !PartFits(*wish.view, PartOf(i->operand(1)->shape()), true))
      return false;
    wish.inside.insert(i);
    return GrowUpdate(i->operand(0), wish);
  }

  void ChooseResults() {
    std::erase_if(wishes_, [&](Wish& wish) {
      if (wish.value->Is(Opcode::kDynamicUpdateSlice)) return !GrowUpdate(wish.value, wish);
      return !IsElementwise(wish.value, *wish.view) || !Grow(wish.value, wish);
    });
    while (DropSeen()) {
    }
  }

  bool IsRootTuple(const Instruction* i) const { return i == entry_->root() && i->Is(Opcode::kTuple); }

  const TileView* InsideView(const Instruction* i) const {
    for (const Wish& wish : wishes_) {
      if (wish.inside.contains(i)) return wish.view;
    }
    return nullptr;
  }

  // A value that others want in rows is better made there.
  bool DropSeen() {
    absl::flat_hash_map<const Instruction*, const TileView*> view_inside;
    for (const Wish& wish : wishes_) {
      for (const Instruction* i : wish.inside) view_inside.try_emplace(i, wish.view);
    }
    auto view = [&](const Instruction* i) {
      auto at = view_inside.find(i);
      return at == view_inside.end() ? nullptr : at->second;
    };
    auto seen = [&](const Instruction* i, const Wish& wish) {
      if (view(i) != wish.view) return true;  // two results want it in two layouts
      return std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* user) {
        if (IsRootTuple(user)) {
          return static_cast<int64_t>(std::count_if(wishes_.begin(), wishes_.end(), [&](const Wish& w) {
                   return w.value == i && w.view == wish.view;
                 })) != std::count(user->operands().begin(), user->operands().end(), i);
        }
        if (view(user) == wish.view) return !IsElementwise(user, *wish.view) && user->operand(0) != i;
        return !DotFits(*user, view(user->operand(0)), user->operand_count() > 1 ? view(user->operand(1)) : nullptr);
      });
    };
    const size_t before = wishes_.size();
    std::vector<bool> drop;
    for (const Wish& wish : wishes_) {
      drop.push_back(
          std::any_of(wish.inside.begin(), wish.inside.end(), [&](const Instruction* i) { return seen(i, wish); }));
    }
    size_t n = 0;
    std::erase_if(wishes_, [&](const Wish&) { return drop[n++]; });
    return wishes_.size() != before;
  }

  // ---- arguments

  bool TakesPart(const Instruction* user, const Instruction* p) const {
    return user->Is(Opcode::kDynamicSlice) && user->operand(0) == p &&
           std::count(user->operands().begin(), user->operands().end(), p) == 1 &&
           user->shape().num_elements() * 4 <= user->operand(0)->shape().num_elements() &&
           PartFits(*view_of_.at(p), PartOf(user->shape()), false);
  }

  void ChooseParameters() {
    chosen_.clear();
    for (const Wish& wish : wishes_) chosen_.insert(wish.sources.begin(), wish.sources.end());
    for (Instruction* p : entry_->parameters()) {
      if (!view_of_.contains(p) || chosen_.contains(p) || refused_.contains(p) || p->IsRoot()) continue;
      const bool some =
          std::any_of(p->users().begin(), p->users().end(), [&](const Instruction* u) { return TakesPart(u, p); });
      const bool all = std::all_of(p->users().begin(), p->users().end(), [&](const Instruction* u) {
        return TakesPart(u, p) || (u->Is(Opcode::kDot) && DotFits(*u, u->operand(0) == p ? view_of_.at(p) : nullptr,
                                                                  u->operand(1) == p ? view_of_.at(p) : nullptr));
      });
      if (some && all) chosen_.insert(p);
    }
  }

  // An argument whose memory a result takes over lies there as the result does, or both go by rows.
  bool AliasesAgree() {
    for (const InputOutputAlias& a : module_->config().input_output_aliases) {
      if (!a.parameter_index.empty() || a.parameter < 0 ||
          a.parameter >= static_cast<int64_t>(entry_->parameters().size()))
        continue;
      Instruction* p = entry_->parameter(a.parameter);
      const int64_t operand = a.output_index.empty() ? 0 : a.output_index[0];
      auto wish = std::find_if(wishes_.begin(), wishes_.end(), [&](const Wish& w) { return w.operand == operand; });
      const bool argument = chosen_.contains(p), result = wish != wishes_.end();
      if (!argument && !result) continue;
      if (argument && result && wish->shape->Identical(parameters_[static_cast<size_t>(a.parameter)])) continue;
      refused_.insert(p);
      view_of_.erase(p);
      std::erase_if(wishes_, [&](const Wish& w) { return w.operand == operand || w.sources.contains(p); });
      while (DropSeen()) {
      }
      ChooseParameters();
      return false;
    }
    return true;
  }

  // ---- the new program

  Instruction* Twin(Instruction* i, const TileView* view) {
    auto [at, fresh] = twins_.try_emplace({i, view}, nullptr);
    if (!fresh) return at->second;
    Instruction* twin = MakeTwin(i, view);
    twins_[{i, view}] = twin;
    return twin;
  }

  const TileView* TilesOf(const Instruction* i) const {
    if (auto at = view_of_.find(i); at != view_of_.end() && chosen_.contains(i)) return at->second;
    return InsideView(i);
  }

  // The value in rows.
  Instruction* Rows(Instruction* i) {
    const TileView* view = TilesOf(i);
    if (view == nullptr) return i;
    if (auto at = rows_.find(i); at != rows_.end()) return at->second;
    return rows_[i] = Untiled(entry_, *view, Twin(i, view));
  }

  Instruction* MakeTwin(Instruction* i, const TileView* view) {
    if (chosen_.contains(i) && LiesSo(i, view)) return i;
    const Shape shape = view->PhysicalShape(i->shape().element_type());
    if (const Literal* value = UniformConstant(i); value != nullptr && i->Is(Opcode::kConstant)) {
      Literal one(Shape::Scalar(shape.element_type()));  // `value` may be an array
      std::memcpy(one.mutable_bytes(), value->bytes(), static_cast<size_t>(ByteWidth(shape.element_type())));
      return MakeBroadcast(entry_, i, MakeConstant(entry_, i, std::move(one)), shape, {});
    }
    if (IsFill(i)) return MakeBroadcast(entry_, i, i->operand(0), shape, {});
    if (InsideView(i) != view) return Tiled(entry_, *view, Rows(i));
    std::vector<Instruction*> operands;
    if (i->Is(Opcode::kDynamicUpdateSlice)) {
      // Of the update in rows: an argument that stays in tiles has its memory's shape by now.
      Instruction* update = Rows(i->operand(1));
      const std::vector<int64_t> part = PartOf(update->shape());
      operands = {Twin(i->operand(0), view), TiledPart(entry_, *view, part, update)};
      for (Instruction* s : PartStarts(entry_, *view, part, i->operands().subspan(2))) operands.push_back(s);
    } else {
      for (Instruction* o : i->operands()) operands.push_back(o->shape().IsScalar() ? o : Twin(o, view));
    }
    return entry_->AddClone(i, shape, operands);
  }

  // The value of an instruction that reads what lies in tiles; null: it takes rows.
  Instruction* ReadInTiles(Instruction* user) {
    auto memory = [&](Instruction* o) -> DotOperand {
      const TileView* view = TilesOf(o);
      return view == nullptr ? DotOperand{o, nullptr} : DotOperand{Twin(o, view), view};
    };
    if (user->Is(Opcode::kDot)) {
      const DotOperand lhs = memory(user->operand(0)), rhs = memory(user->operand(1));
      return DotFits(*user, lhs.view, rhs.view) ? TiledDot(entry_, *user, lhs, rhs) : nullptr;
    }
    if (!chosen_.contains(user->operand(0)) || !logical_parts_.contains(user)) return nullptr;
    const DotOperand from = memory(user->operand(0));
    const std::vector<int64_t> part = PartOf(user->shape()), sizes = PartSizes(*from.view, part);
    std::vector<Instruction*> operands{from.value};
    for (Instruction* s : PartStarts(entry_, *from.view, part, user->operands().subspan(1))) operands.push_back(s);
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, Ints(sizes.begin(), sizes.end()));
    Instruction* taken = Make(entry_, user, Opcode::kDynamicSlice, Shape(user->shape().element_type(), sizes),
                              std::move(operands), std::move(attrs));
    return UntiledPart(entry_, *from.view, part, taken);
  }

  void Rewrite() {
    std::vector<Instruction*> readers;  // that are not inside themselves
    absl::flat_hash_set<const Instruction*> noted;
    auto note = [&](const Instruction* i) {
      for (Instruction* user : i->users()) {
        if (!IsRootTuple(user) && InsideView(user) == nullptr && noted.insert(user).second) readers.push_back(user);
      }
    };
    for (Instruction* p : entry_->parameters()) {
      if (!chosen_.contains(p)) continue;
      note(p);
      for (const Instruction* user : p->users()) {
        if (TakesPart(user, p)) logical_parts_.insert(user);
      }
    }
    const std::vector<Instruction*> before = entry_->Snapshot();
    for (const Instruction* i : before) {
      if (InsideView(i) != nullptr) note(i);
    }
    for (Instruction* p : entry_->parameters()) {
      if (!chosen_.contains(p)) continue;
      p->mutable_shape() = view_of_.at(p)->PhysicalShape(p->shape().element_type());
    }
    for (Instruction* reader : readers) {
      if (Instruction* read = ReadInTiles(reader); read != nullptr) {
        Replace(reader, read);
        continue;
      }
      for (int64_t k = 0; k < reader->operand_count(); ++k) {
        Instruction* in_rows = Rows(reader->operand(k));
        if (in_rows != reader->operand(k)) reader->ReplaceOperand(k, in_rows);
      }
    }
    RewriteRoot();
    entry_->RemoveDead();
    entry_->SortTopologically();
  }

  void RewriteRoot() {
    Instruction* root = entry_->root();
    if (!root->Is(Opcode::kTuple)) {
      if (!wishes_.empty()) entry_->set_root(Twin(wishes_[0].value, wishes_[0].view));
      return;
    }
    std::vector<Instruction*> operands;
    for (int64_t k = 0; k < root->operand_count(); ++k) {
      auto wish = std::find_if(wishes_.begin(), wishes_.end(), [&](const Wish& w) { return w.operand == k; });
      operands.push_back(wish == wishes_.end() ? Rows(root->operand(k)) : Twin(wish->value, wish->view));
    }
    std::vector<Shape> shapes;
    for (const Instruction* o : operands) shapes.push_back(o->shape());
    entry_->set_root(Make(entry_, root, Opcode::kTuple, Shape::Tuple(std::move(shapes)), std::move(operands)));
  }

  Module* module_;
  Computation* entry_;
  absl::Span<const Shape> parameters_;
  std::vector<std::unique_ptr<TileView>> views_;
  absl::flat_hash_map<const Instruction*, const TileView*> view_of_;  // of parameters
  std::vector<Wish> wishes_;
  absl::flat_hash_set<Instruction*> chosen_, refused_;  // parameters
  absl::flat_hash_set<const Instruction*> logical_parts_;
  absl::flat_hash_map<std::pair<const Instruction*, const TileView*>, Instruction*> twins_;
  absl::flat_hash_map<const Instruction*, Instruction*> rows_;
};

}  // namespace

bool LiveInTiles(Module* module, absl::Span<const Shape> parameters, const Shape& result,
                 std::vector<std::string>* log) {
  return Tiler(module, parameters, result).Run(log);
}

bool LivesInTiles(const Shape& in_program, const Shape& array) {
  return array.IsArray() && in_program.IsArray() && in_program.dimensions() != array.dimensions();
}

}  // namespace backplane::tpu
