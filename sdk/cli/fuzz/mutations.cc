// Wrong rewrites of single operations, which the tool must detect.
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/rewrite.h"
#include "sdk/cli/fuzz/runner.h"

namespace backplane::cli::fuzz {
namespace {

// Replaces the operation by another one with the same operands, everywhere.
void Replace(Module& module, Opcode from, Opcode to) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(from)) continue;
      InstructionSpec spec;
      spec.opcode = to;
      spec.shape = i->shape();
      spec.operands.assign(i->operands().begin(), i->operands().end());
      Instruction* other = c->Add(std::move(spec));
      i->ReplaceAllUsesWith(other);
      c->SortTopologically();
    }
  }
}

void SwapMinMax(Module& module) { Replace(module, Opcode::kMaximum, Opcode::kMinimum); }
void RoundAway(Module& module) { Replace(module, Opcode::kRoundNearestEven, Opcode::kRoundNearestAfz); }

// One element more before, one less after.
void PadOffByOne(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kPad)) continue;
      PaddingConfig padding = i->padding();
      if (padding.empty()) continue;
      ++padding[0].low;
      --padding[0].high;
      i->mutable_attrs().Set(AttrId::kPadding, padding);
    }
  }
}

void DropNegate(Module& module) { Replace(module, Opcode::kNegate, Opcode::kCopy); }

// Slices start one element late, if that fits.
void LateSlice(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kSlice)) continue;
      SliceConfig slices = i->slices();
      for (size_t d = 0; d < slices.size(); ++d) {
        if (slices[d].limit >= i->operand(0)->shape().dimensions(static_cast<int64_t>(d))) continue;
        ++slices[d].start;
        ++slices[d].limit;
      }
      i->mutable_attrs().Set(AttrId::kSlices, slices);
    }
  }
}

// Calls `change` for each instruction of this kind, and sorts the instructions that it creates afterwards.
void ForEach(Module& module, Opcode opcode, const std::function<void(Computation*, Instruction*)>& change) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (i->Is(opcode)) change(c.get(), i);
    }
    c->SortTopologically();
  }
}

void SwapOperands(Module& module) {
  ForEach(module, Opcode::kSubtract, [](Computation*, Instruction* i) {
    Instruction *a = i->operand(0), *b = i->operand(1);
    i->ReplaceOperand(0, b);
    i->ReplaceOperand(1, a);
  });
}

void LogicalShift(Module& module) { Replace(module, Opcode::kShiftRightArithmetic, Opcode::kShiftRightLogical); }

// The larger of two numbers by a processor's plain comparison, in the arrays of the entry computation.
void LostNan(Module& module) {
  ForEach(module, Opcode::kMaximum, [](Computation* c, Instruction* i) {
    if (!IsFloat(i->shape().element_type())) return;
    Attributes attrs;
    attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kGt);
    attrs.SetEnum(AttrId::kComparisonType, ComparisonType::kFloat);
    Shape flags = i->shape();
    flags.set_element_type(PrimitiveType::kPred);
    Instruction* greater = Make(c, i, Opcode::kCompare, flags, {i->operand(0), i->operand(1)}, std::move(attrs));
    Instruction* pick = Make(c, i, Opcode::kSelect, i->shape(), {greater, i->operand(0), i->operand(1)});
    i->ReplaceAllUsesWith(pick);
  });
}

// The last element along the first reduced dimension is left out of a sum.
void ShortSum(Module& module) {
  ForEach(module, Opcode::kReduce, [](Computation* c, Instruction* i) {
    if (i->operand_count() != 2 || i->dimensions().empty()) return;
    Instruction *x = i->operand(0), *init = i->operand(1);
    const int64_t d = i->dimensions()[0];
    if (x->shape().HasDynamicDimensions() || x->shape().dimensions(d) < 1) return;
    PaddingConfig cut(static_cast<size_t>(x->shape().rank())), back = cut;
    cut[static_cast<size_t>(d)].high = -1;
    back[static_cast<size_t>(d)].high = 1;
    Shape shorter = x->shape();
    shorter.set_dimension(d, x->shape().dimensions(d) - 1);
    Attributes first, second;
    first.Set(AttrId::kPadding, cut);
    second.Set(AttrId::kPadding, back);
    Instruction* less = Make(c, i, Opcode::kPad, shorter, {x, init}, std::move(first));
    i->ReplaceOperand(0, Make(c, i, Opcode::kPad, x->shape(), {less, init}, std::move(second)));
  });
}

// A matrix unit that reads bf16 although the program has f32.
void NarrowProducts(Module& module) {
  ForEach(module, Opcode::kDot, [](Computation* c, Instruction* i) {
    for (int64_t o = 0; o < 2; ++o) {
      const Shape wide = i->operand(o)->shape();
      if (wide.element_type() != PrimitiveType::kF32) return;
      Shape narrow = wide;
      narrow.set_element_type(PrimitiveType::kBF16);
      Instruction* rounded = Make(c, i, Opcode::kConvert, narrow, {i->operand(o)});
      i->ReplaceOperand(o, Make(c, i, Opcode::kConvert, wide, {rounded}));
    }
  });
}

// A function with an error in the fifth digit.
void ImpreciseExponential(Module& module) {
  ForEach(module, Opcode::kExp, [](Computation* c, Instruction* i) {
    const PrimitiveType type = i->shape().element_type();
    if (type != PrimitiveType::kF32 && type != PrimitiveType::kF64) return;
    Instruction* factor = MakeConstant(c, i, Literal::Scalar(type, 1.00002));
    Instruction* wide = MakeBroadcast(c, i, factor, i->shape(), {});
    Instruction* product = Make(c, i, Opcode::kMultiply, i->shape(), {i, wide});
    i->ReplaceAllUsesWith(product);
    product->ReplaceOperand(0, i);
  });
}

// Returns the array before the update.
void LostUpdate(Module& module) {
  ForEach(module, Opcode::kDynamicUpdateSlice,
          [](Computation*, Instruction* i) { i->ReplaceAllUsesWith(i->operand(0)); });
}

// ---- Passing of arguments

// Reads arguments as if they were row-major, whatever order was requested.
void IgnoredOrder(Module& module) { module.config().parameter_layouts.clear(); }

// Uses the memory of an argument for a result although it was not donated.
void GreedyAlias(Module& module) {
  ModuleConfig& config = module.config();
  const Shape& result = module.entry()->root()->shape();
  auto is_free = [&](int64_t parameter, const Ints& output) {
    for (const InputOutputAlias& a : config.input_output_aliases) {
      if (a.parameter == parameter || a.output_index == output) return false;
    }
    return true;
  };
  if (!config.parameter_layouts.empty() || config.result_layout.element_type() != PrimitiveType::kInvalid) return;
  for (const Instruction* p : module.entry()->parameters()) {
    for (int64_t r = 0; r < (result.IsTuple() ? result.tuple_size() : 1); ++r) {
      const Ints output = result.IsTuple() ? Ints{r} : Ints{};
      if (!((result.IsTuple() ? result.tuple_shapes(r) : result) == p->shape())) continue;
      if (is_free(p->parameter_number(), output)) {
        config.input_output_aliases.push_back({output, p->parameter_number(), {}, false});
      }
    }
  }
}

// ---- Several devices

// Groups whose members are in the wrong order.
void ReversedGroups(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->attrs().Has(AttrId::kReplicaGroups)) continue;
      ReplicaGroups groups;
      for (Ints group : i->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand()) {
        groups.groups.emplace_back(group.rbegin(), group.rend());
      }
      i->mutable_attrs().Set(AttrId::kReplicaGroups, std::move(groups));
    }
  }
}

// A device keeps its own array instead of the sum.
void LostReduction(Module& module) {
  ForEach(module, Opcode::kAllReduce, [](Computation*, Instruction* i) {
    if (!i->shape().IsTuple()) i->ReplaceAllUsesWith(i->operand(0));
  });
}

void ReversedPermute(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->attrs().Has(AttrId::kSourceTargetPairs)) continue;
      Pairs pairs;
      for (const auto& [from, to] : i->attrs().Get<Pairs>(AttrId::kSourceTargetPairs)) pairs.emplace_back(to, from);
      i->mutable_attrs().Set(AttrId::kSourceTargetPairs, std::move(pairs));
    }
  }
}

// ---- Computations that are called for elements

// A reduction with a computation of several operations keeps the first of two elements.
void ShallowBody(Module& module) {
  ForEach(module, Opcode::kReduce, [](Computation*, Instruction* i) {
    Computation* body = i->called(0);
    if (i->operand_count() != 2 || body->root()->operand_count() == 2) return;
    if (!(body->root()->shape() == body->parameter(0)->shape())) return;
    body->set_root(body->parameter(0));
  });
}

// Sorts by the elements themselves, whatever the comparator computes.
void PlainSort(Module& module) {
  ForEach(module, Opcode::kSort, [](Computation*, Instruction* i) {
    Computation* order = i->called(0);
    Instruction *l = order->parameter(0), *r = order->parameter(1);
    const PrimitiveType type = l->shape().element_type();
    if (!IsIntegral(type)) return;
    Attributes attrs;
    attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kLt);
    attrs.SetEnum(AttrId::kComparisonType, IsSigned(type) ? ComparisonType::kSigned : ComparisonType::kUnsigned);
    order->set_root(Make(order, l, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred), {l, r}, std::move(attrs)));
  });
}

// Elements beyond the size of a bounded array count.
void IgnoredSize(Module& module) {
  ForEach(module, Opcode::kSetDimensionSize, [](Computation* c, Instruction* i) {
    const int64_t d = i->dimensions().empty() ? 0 : i->dimensions()[0];
    const PrimitiveType type = i->operand(1)->shape().element_type();
    i->ReplaceOperand(1, MakeConstant(c, i, Literal::ScalarInt(type, i->operand(0)->shape().dimensions(d))));
  });
}

// Uses another generator with the same state.
void SwappedGenerator(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kRngBitGenerator) || i->operand(0)->shape().dimensions(0) != 2) continue;
      const bool threefry = i->attrs().GetEnum<RandomAlgorithm>(AttrId::kRandomAlgorithm) == RandomAlgorithm::kThreeFry;
      i->mutable_attrs().SetEnum(AttrId::kRandomAlgorithm,
                                 threefry ? RandomAlgorithm::kPhilox : RandomAlgorithm::kThreeFry);
    }
  }
}

// ---- Computations with several callers, and loops

// Changes a computation in place for one of its callers, which passes a constant.
void EditedShared(Module& module) {
  absl::flat_hash_map<const Computation*, int> callers;
  for (const Computation* c : module.PostOrder()) {
    for (const auto& i : c->instructions()) {
      for (const Computation* called : i->called()) ++callers[called];
    }
  }
  std::set<std::pair<const Computation*, int64_t>> done;
  auto sink = [&](Computation* callee, int64_t k, Instruction* read, const Instruction* given) {
    if (callers[callee] < 2 || !given->Is(Opcode::kConstant) || !done.insert({callee, k}).second) return;
    read->ReplaceAllUsesWith(MakeConstant(callee, read, given->literal()));
    callee->SortTopologically();
  };
  for (Computation* c : module.PostOrder()) {
    for (Instruction* i : c->Snapshot()) {
      if (i->Is(Opcode::kCall)) {
        for (int64_t k = 0; k < i->operand_count(); ++k)
          sink(i->called(0), k, i->called(0)->parameter(k), i->operand(k));
      }
      if (!i->Is(Opcode::kWhile) || !i->operand(0)->Is(Opcode::kTuple) || !i->called(1)->root()->Is(Opcode::kTuple))
        continue;
      Computation* body = i->called(1);
      for (Instruction* read : body->Snapshot()) {
        if (!read->Is(Opcode::kGetTupleElement) || read->operand(0) != body->parameter(0)) continue;
        const int64_t k = read->tuple_index();
        if (body->root()->operand(k) == read) sink(body, k, read, i->operand(0)->operand(k));
      }
    }
  }
}

// Overwrites a state element that only the condition reads with a value that the condition computes from it.
void OverwrittenFlag(Module& module) {
  ForEach(module, Opcode::kWhile, [](Computation* c, Instruction* loop) {
    const Computation *condition = loop->called(0), *body = loop->called(1);
    if (!loop->shape().IsTuple()) return;
    for (const auto& in_place : condition->instructions()) {
      const Instruction* read = in_place->operand_count() == 1 ? in_place->operand(0) : nullptr;
      if (read == nullptr || !in_place->info().Has(kElementwise) || !read->Is(Opcode::kGetTupleElement)) continue;
      if (read->operand(0) != condition->parameter(0) || !(in_place->shape() == read->shape())) continue;
      const int64_t k = read->tuple_index();
      bool only_here = true;
      for (const Instruction* u : body->parameter(0)->users()) {
        only_here = only_here && u->Is(Opcode::kGetTupleElement) && (u->tuple_index() != k || u->users().empty());
      }
      if (!only_here) continue;
      for (Instruction* u : std::vector<Instruction*>(loop->users().begin(), loop->users().end())) {
        if (!u->Is(Opcode::kGetTupleElement) || u->tuple_index() != k) continue;
        Instruction* left = Make(c, u, in_place->opcode(), u->shape(), {u});
        u->ReplaceAllUsesWith(left);
        left->ReplaceOperand(0, u);
      }
      return;
    }
  });
}

// A loop ends when its counter wraps.
void LostWrap(Module& module) {
  std::set<const Computation*> done;
  for (Computation* c : module.PostOrder()) {
    for (Instruction* loop : c->Snapshot()) {
      if (!loop->Is(Opcode::kWhile) || !loop->operand(0)->Is(Opcode::kTuple)) continue;
      Computation* condition = loop->called(0);
      for (Instruction* test : condition->Snapshot()) {
        if (!test->Is(Opcode::kCompare) || !test->operand(0)->Is(Opcode::kGetTupleElement)) continue;
        Instruction* counter = test->operand(0);
        const bool up = test->direction() == ComparisonDirection::kLt || test->direction() == ComparisonDirection::kLe;
        if (!up || counter->operand(0) != condition->parameter(0) || !IsIntegral(counter->shape().element_type()))
          continue;
        const Instruction* start = loop->operand(0)->operand(counter->tuple_index());
        if (!start->Is(Opcode::kConstant) || !done.insert(test->parent()).second) continue;
        Attributes attrs = test->attrs();
        attrs.SetEnum(AttrId::kDirection, ComparisonDirection::kGe);
        Instruction* first = MakeConstant(condition, test, start->literal());
        Instruction* not_over =
            Make(condition, test, Opcode::kCompare, test->shape(), {counter, first}, std::move(attrs));
        Instruction* both = Make(condition, test, Opcode::kAnd, test->shape(), {test, not_over});
        test->ReplaceAllUsesWith(both);
        both->ReplaceOperand(0, test);
        condition->SortTopologically();
      }
    }
  }
}

const std::vector<std::pair<std::string, Mutation>>& All() {
  static const auto* const all = new std::vector<std::pair<std::string, Mutation>>{
      {"swap-min-max", SwapMinMax},
      {"pad-off-by-one", PadOffByOne},
      {"round-away", RoundAway},
      {"drop-negate", DropNegate},
      {"late-slice", LateSlice},
      {"swap-operands", SwapOperands},
      {"logical-shift", LogicalShift},
      {"lost-nan", LostNan},
      {"short-sum", ShortSum},
      {"narrow-products", NarrowProducts},
      {"loose-exponential", ImpreciseExponential},
      {"lost-update", LostUpdate},
      {"ignored-order", IgnoredOrder},
      {"greedy-alias", GreedyAlias},
      {"turned-groups", ReversedGroups},
      {"lost-reduction", LostReduction},
      {"turned-permute", ReversedPermute},
      {"shallow-body", ShallowBody},
      {"plain-sort", PlainSort},
      {"ignored-size", IgnoredSize},
      {"swapped-generator", SwappedGenerator},
      {"edited-shared", EditedShared},
      {"overwritten-flag", OverwrittenFlag},
      {"lost-wrap", LostWrap},
  };
  return *all;
}

}  // namespace

std::vector<std::string> ListMutations() {
  std::vector<std::string> names;
  for (const auto& [name, mutation] : All()) names.push_back(name);
  return names;
}

absl::StatusOr<Mutation> FindMutation(const std::string& name) {
  for (const auto& [known, mutation] : All()) {
    if (known == name) return mutation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("defect '", name, "': expected one of ", absl::StrJoin(ListMutations(), ", ")));
}

}  // namespace backplane::cli::fuzz
