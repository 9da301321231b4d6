// User lists, traversal marks and hashes, on which passes over large programs rely.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/ir/module.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

const Shape& Scalar() {
  static const Shape shape(PrimitiveType::kF32, {});
  return shape;
}

Instruction* Parameter(Computation* c) {
  InstructionSpec spec;
  spec.opcode = Opcode::kParameter;
  spec.shape = Scalar();
  return c->Add(std::move(spec));
}

Instruction* Tuple(Computation* c, std::vector<Instruction*> operands) {
  InstructionSpec spec;
  spec.opcode = Opcode::kTuple;
  spec.shape = Shape::Tuple(std::vector<Shape>(operands.size(), Scalar()));
  spec.operands = std::move(operands);
  return c->Add(std::move(spec));
}

Instruction* Negated(Computation* c, Instruction* x) {
  InstructionSpec spec;
  spec.opcode = Opcode::kNegate;
  spec.shape = Scalar();
  spec.operands = {x};
  return c->Add(std::move(spec));
}

// A reference implementation of user lists: a plain list for each value with linear search.
class PlainUsers {
 public:
  void Add(Instruction* user, const std::vector<Instruction*>& operands) {
    operands_[user] = operands;
    for (Instruction* o : operands) Enter(user, o);
  }
  void ReplaceOperand(Instruction* user, size_t k, Instruction* with) {
    Instruction* before = operands_[user][k];
    if (before == with) return;
    operands_[user][k] = with;
    if (std::count(operands_[user].begin(), operands_[user].end(), before) == 0) std::erase(users_[before], user);
    Enter(user, with);
  }
  void ReplaceAllUsesWith(Instruction* value, Instruction* with) {
    const std::vector<Instruction*> users = users_[value];
    for (Instruction* user : users) {
      for (size_t k = 0; k < operands_[user].size(); ++k) {
        if (operands_[user][k] == value) ReplaceOperand(user, k, with);
      }
    }
  }
  void Remove(Instruction* user) {
    for (Instruction* o : operands_[user]) std::erase(users_[o], user);
    operands_.erase(user);
  }
  const std::vector<Instruction*>& of(Instruction* value) { return users_[value]; }

 private:
  void Enter(Instruction* user, Instruction* value) {
    std::vector<Instruction*>& users = users_[value];
    if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
  }
  std::map<Instruction*, std::vector<Instruction*>> operands_, users_;
};

TEST(Users, AreThoseOfPlainListsWhateverIsDone) {
  std::mt19937 random(11);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 50; ++round) {
    Module module("m");
    Computation* c = module.AddComputation("main");
    PlainUsers plain;
    std::vector<Instruction*> values, tuples;
    for (int k = 0; k < 5; ++k) values.push_back(Parameter(c));
    for (int step = 0; step < 200; ++step) {
      const size_t what = below(8);
      if (what < 3 || tuples.empty()) {
        std::vector<Instruction*> operands;
        for (size_t k = below(9); k > 0; --k) operands.push_back(values[below(values.size())]);
        tuples.push_back(Tuple(c, operands));
        plain.Add(tuples.back(), operands);
      } else if (what < 6) {
        Instruction* user = tuples[below(tuples.size())];
        if (user->operand_count() == 0) continue;
        const size_t k = below(static_cast<size_t>(user->operand_count()));
        Instruction* with = values[below(values.size())];
        user->ReplaceOperand(static_cast<int64_t>(k), with);
        plain.ReplaceOperand(user, k, with);
      } else if (what == 6) {
        Instruction *value = values[below(values.size())], *with = values[below(values.size())];
        if (value == with) continue;
        value->ReplaceAllUsesWith(with);
        plain.ReplaceAllUsesWith(value, with);
      } else {
        const size_t k = below(tuples.size());
        plain.Remove(tuples[k]);
        ASSERT_TRUE(c->Remove(tuples[k]).ok());
        tuples.erase(tuples.begin() + static_cast<std::ptrdiff_t>(k));
      }
      for (Instruction* v : values) {
        ASSERT_THAT(v->users(), ElementsAreArray(plain.of(v))) << "round " << round << ", step " << step;
        ASSERT_EQ(v->users().size(), plain.of(v).size());
      }
    }
  }
}

TEST(Users, OfOneThatIsRemovedAreForgotten) {
  Module module("m");
  Computation* c = module.AddComputation("main");
  Instruction* x = Parameter(c);
  Instruction *a = Negated(c, x), *b = Negated(c, x), *d = Negated(c, x);
  c->set_root(a);
  b->AddControlPredecessor(d);  // all but a are dead
  d->AddControlPredecessor(a);
  EXPECT_EQ(c->RemoveDead(), 2);
  EXPECT_THAT(x->users(), ElementsAre(a));
  Instruction* root = Negated(c, x);
  c->set_root(root);
  Instruction *first = Negated(c, x), *second = Negated(c, x);
  second->AddControlPredecessor(a);
  second->AddControlPredecessor(first);
  ASSERT_TRUE(c->Remove(first).ok());
  EXPECT_THAT(second->control_predecessors(), ElementsAre(a));
  ASSERT_TRUE(c->Remove(second).ok());
  ASSERT_TRUE(c->Remove(a).ok());  // has no control successors any more
  EXPECT_THAT(x->users(), ElementsAre(root));
  EXPECT_THAT(root->users(), IsEmpty());
}

TEST(Users, SortingKeepsAnOrderThatIsRight) {
  Module module("m");
  Computation* c = module.AddComputation("main");
  Instruction* x = Parameter(c);
  Instruction *a = Negated(c, x), *b = Negated(c, a);
  Instruction* late = Negated(c, x);
  a->ReplaceOperand(0, late);
  c->set_root(b);
  c->SortTopologically();
  EXPECT_THAT(c->Snapshot(), ElementsAre(x, late, a, b));
  c->SortTopologically();
  EXPECT_THAT(c->Snapshot(), ElementsAre(x, late, a, b));
}

// Each function calls the previous one twice: 2^60 paths through 61 functions.
TEST(HasSideEffect, LooksAtEachComputationOnce) {
  Module module("m");
  Computation* callee = nullptr;
  Instruction* last = nullptr;
  for (int level = 0; level <= 60; ++level) {
    Computation* c = module.AddComputation("f");
    Instruction* x = Parameter(c);
    for (int twice = 0; twice < 2; ++twice) {
      InstructionSpec spec;
      spec.opcode = callee == nullptr ? Opcode::kNegate : Opcode::kCall;
      spec.shape = Scalar();
      spec.operands = {x};
      if (callee != nullptr) spec.called = {callee};
      x = last = c->Add(std::move(spec));
    }
    c->set_root(last);
    callee = c;
  }
  EXPECT_FALSE(last->HasSideEffect());
}

Instruction* Slice(Computation* c, Instruction* x, int64_t start) {
  InstructionSpec spec;
  spec.opcode = Opcode::kSlice;
  spec.shape = Shape(PrimitiveType::kF32, {1});
  spec.operands = {x};
  spec.attrs.Set(AttrId::kSlices, SliceConfig{{start, start + 1, 1}});
  return c->Add(std::move(spec));
}

TEST(HashWithoutOperands, TellsAttributesAndWholeConstantsApart) {
  Module module("m");
  Computation* c = module.AddComputation("main");
  InstructionSpec spec;
  spec.opcode = Opcode::kParameter;
  spec.shape = Shape(PrimitiveType::kF32, {1000});
  Instruction* x = c->Add(std::move(spec));
  std::set<uint64_t> slices, constants;
  for (int64_t k = 0; k < 1000; ++k) slices.insert(Slice(c, x, k)->HashWithoutOperands());
  EXPECT_EQ(slices.size(), 1000u);
  EXPECT_EQ(*slices.find(Slice(c, x, 7)->HashWithoutOperands()), Slice(c, x, 7)->HashWithoutOperands());
  for (int64_t k = 0; k < 1000; ++k) {  // one element in a thousand is not zero
    Literal one_hot(Shape(PrimitiveType::kF32, {1000}));
    one_hot.SetFromDouble(k, 1);
    InstructionSpec constant;
    constant.opcode = Opcode::kConstant;
    constant.shape = one_hot.shape();
    constant.literal = std::make_shared<const Literal>(std::move(one_hot));
    constants.insert(c->Add(std::move(constant))->HashWithoutOperands());
  }
  EXPECT_EQ(constants.size(), 1000u);
}

}  // namespace
}  // namespace backplane
