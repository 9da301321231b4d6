#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "core/ir/builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PrimitiveType kF32 = PrimitiveType::kF32;
constexpr PrimitiveType kS32 = PrimitiveType::kS32;

// main(x f32[2], y f32[2]): x + y * x, negated.
struct Small {
  Module module{"m"};
  Computation* main = nullptr;
  Value x, y, product, sum, root;
  Small() {
    Builder b(&module, "main");
    x = *b.Parameter(0, Shape(kF32, {2}), "x");
    y = *b.Parameter(1, Shape(kF32, {2}), "y");
    product = *b.Binary(Opcode::kMultiply, y, x);
    sum = *b.Binary(Opcode::kAdd, x, product);
    root = *b.Unary(Opcode::kNegate, sum);
    main = *b.Build(root);
    module.set_entry(main);
  }
};

std::vector<std::string> Names(const Computation& c) {
  std::vector<std::string> names;
  for (const auto& i : c.instructions()) names.push_back(i->name());
  return names;
}

TEST(Ir, UsersAreKeptOnceEach) {
  Small s;
  EXPECT_THAT(s.x->users(), ElementsAre(s.product, s.sum));
  EXPECT_THAT(s.y->users(), ElementsAre(s.product));
  s.sum->ReplaceOperand(1, s.x);  // x + x
  EXPECT_THAT(s.x->users(), ElementsAre(s.product, s.sum));
  EXPECT_TRUE(s.product->users().empty());
  EXPECT_TRUE(VerifyModule(s.module).ok());
}

TEST(Ir, ReplaceAllUsesMovesTheRoot) {
  Small s;
  s.root->ReplaceAllUsesWith(s.sum);
  EXPECT_EQ(s.main->root(), s.sum);
  EXPECT_EQ(s.main->RemoveDead(), 1);
  EXPECT_THAT(Names(*s.main), ElementsAre("x", "y", "multiply", "add"));
  EXPECT_TRUE(s.sum->users().empty());
  EXPECT_TRUE(VerifyModule(s.module).ok());
}

TEST(Ir, RemoveRefusesWhatIsUsed) {
  Small s;
  EXPECT_THAT(s.main->Remove(s.sum).message(), HasSubstr("has users"));
  EXPECT_THAT(s.main->Remove(s.root).message(), HasSubstr("is the root"));
  s.sum->ReplaceOperand(1, s.x);
  EXPECT_TRUE(s.main->Remove(s.product).ok());
  EXPECT_TRUE(s.y->users().empty());
  EXPECT_THAT(s.main->Remove(s.y).message(), HasSubstr("parameter"));
  EXPECT_TRUE(s.main->RemoveParameter(1).ok());
  EXPECT_EQ(s.main->parameters().size(), 1u);
  EXPECT_THAT(s.main->RemoveParameter(0).message(), HasSubstr("has users"));
  EXPECT_TRUE(VerifyModule(s.module).ok()) << VerifyModule(s.module);
}

TEST(Ir, RemovingAParameterRenumbersTheLaterOnes) {
  Module m("m");
  Builder b(&m, "main");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(b.Parameter(i, Shape::Scalar(kF32)).ok());
  Value last = b.computation()->parameter(2);
  m.set_entry(*b.Build(last));
  ASSERT_TRUE(m.entry()->RemoveParameter(0).ok());
  EXPECT_EQ(last->parameter_number(), 1);
  EXPECT_TRUE(VerifyModule(m).ok());
}

TEST(Ir, SortTopologicallyRestoresOrderAndKeepsTheRest) {
  Small s;
  // A new instruction at the end that an earlier one is made to use.
  InstructionSpec spec;
  spec.opcode = Opcode::kNegate;
  spec.shape = Shape(kF32, {2});
  spec.operands = {s.y};
  Instruction* late = s.main->Add(std::move(spec));
  s.product->ReplaceOperand(0, late);
  EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[order]"));
  s.main->SortTopologically();
  EXPECT_TRUE(VerifyModule(s.module).ok()) << VerifyModule(s.module);
  EXPECT_THAT(Names(*s.main), ElementsAre("x", "y", "negate.1", "multiply", "add", "negate"));
}

TEST(Ir, AddBeforePlacesThere) {
  Small s;
  InstructionSpec spec;
  spec.opcode = Opcode::kCopy;
  spec.shape = Shape(kF32, {2});
  spec.operands = {s.x};
  s.main->AddBefore(s.product, std::move(spec));
  EXPECT_THAT(Names(*s.main), ElementsAre("x", "y", "copy", "multiply", "add", "negate"));
}

TEST(Ir, SideEffectsStay) {
  Module m("m");
  Builder b(&m, "main");
  Value x = *b.Parameter(0, Shape::Scalar(kF32));
  Attributes pure, effect;
  pure.Set(AttrId::kCustomCallTarget, std::string("f"));
  effect = pure;
  effect.Set(AttrId::kHasSideEffect, true);
  ASSERT_TRUE(b.Op(Opcode::kCustomCall, {x}, pure, {}, Shape::Scalar(kF32)).ok());
  Value kept = *b.Op(Opcode::kCustomCall, {x}, effect, {}, Shape::Scalar(kF32));
  m.set_entry(*b.Build(x));
  EXPECT_EQ(m.entry()->RemoveDead(), 1);
  EXPECT_TRUE(kept->HasSideEffect());
  EXPECT_EQ(m.entry()->instruction_count(), 2);
}

TEST(Ir, NamesAreUniqueAndKeptWhenFree) {
  Module m("m");
  EXPECT_EQ(m.UniqueName("add"), "add");
  EXPECT_EQ(m.UniqueName("add"), "add.1");
  EXPECT_EQ(m.UniqueName("add.7"), "add.7");
  EXPECT_EQ(m.UniqueName("add.7"), "add.2");
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(names.insert(m.UniqueName("add")).second);
  EXPECT_FALSE(names.contains("add.7"));
}

Module* WithCall(Module* m) {
  Builder inner(m, "inner");
  Value p = *inner.Parameter(0, Shape(kF32, {2}));
  Computation* c = *inner.Build(*inner.Unary(Opcode::kTanh, p));
  Builder b(m, "main");
  Value x = *b.Parameter(0, Shape(kF32, {2}), "x");
  b.set_metadata({"t", "op", "f.py", 3});
  Value y = *b.Call(c, {x});
  Value z = *b.Call(c, {y});
  m->set_entry(*b.Build(z));
  return m;
}

TEST(Ir, CloneIsEqualAndIndependent) {
  Module m("m");
  WithCall(&m);
  m.config().num_partitions = 2;
  m.config().input_output_aliases = {{{}, 0, {}, true}};
  std::unique_ptr<Module> clone = m.Clone();
  EXPECT_TRUE(VerifyModule(*clone).ok()) << VerifyModule(*clone);
  EXPECT_EQ(clone->Fingerprint(), m.Fingerprint());
  EXPECT_EQ(clone->config().input_output_aliases, m.config().input_output_aliases);
  EXPECT_EQ(Names(*clone->entry()), Names(*m.entry()));
  EXPECT_EQ(clone->computations().size(), 2u);
  EXPECT_EQ(clone->entry()->root()->called(0), clone->entry()->root()->operand(0)->called(0));
  EXPECT_NE(clone->entry()->root()->called(0), m.entry()->root()->called(0));
  EXPECT_EQ(clone->entry()->root()->metadata(), m.entry()->root()->metadata());
}

TEST(Ir, CloneComputationTakesCalleesAlong) {
  Module m("m"), other("other");
  WithCall(&m);
  Computation* c = other.CloneComputation(m.entry());
  other.set_entry(c);
  EXPECT_EQ(other.computations().size(), 2u);
  EXPECT_TRUE(VerifyModule(other).ok());
  Computation* again = other.CloneComputation(c);
  EXPECT_NE(again->name(), c->name());
  EXPECT_EQ(other.computations().size(), 4u);
  EXPECT_EQ(other.RemoveUnreachableComputations(), 2);
}

TEST(Ir, FingerprintSeesMeaningOnly) {
  Small a, b, c;
  EXPECT_EQ(a.module.Fingerprint(), b.module.Fingerprint());
  EXPECT_EQ(a.module.Fingerprint().size(), 32u);
  b.sum->set_name("another");
  b.sum->set_metadata({"t", "n", "f", 1});
  b.module.set_name("other");
  EXPECT_EQ(a.module.Fingerprint(), b.module.Fingerprint());
  c.sum->ReplaceOperand(1, c.x);
  EXPECT_NE(a.module.Fingerprint(), c.module.Fingerprint());
  b.module.config().num_replicas = 2;
  EXPECT_NE(a.module.Fingerprint(), b.module.Fingerprint());

  auto constant = [](double v, int64_t k) {
    Module m("m");
    Builder b(&m, "main");
    Value x = *b.Constant(Literal::FromValues<double>({2}, {v, 2.0}));
    Attributes attrs;
    attrs.Set(AttrId::kK, k);
    m.set_entry(*b.Build(*b.Op(Opcode::kTopK, {x}, std::move(attrs))));
    return m.Fingerprint();
  };
  EXPECT_EQ(constant(1, 1), constant(1, 1));
  EXPECT_NE(constant(1, 1), constant(1, 2));
  EXPECT_NE(constant(0.0, 1), constant(-0.0, 1));
}

TEST(Ir, PostOrderPutsCalleesFirst) {
  Module m("m");
  WithCall(&m);
  m.AddComputation("alone");
  const std::vector<Computation*> order = m.PostOrder();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0]->name(), "inner");
  EXPECT_EQ(order[1], m.entry());
}

TEST(Verifier, DonorsNameParametersAndTheirLeaves) {
  Small s;
  s.module.config().buffer_donors = {{1, {}}};
  EXPECT_TRUE(VerifyModule(s.module).ok()) << VerifyModule(s.module);
  s.module.config().buffer_donors = {{2, {}}};
  EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[buffer_donor]"));
  s.module.config().buffer_donors = {{1, {0}}};
  EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[buffer_donor]"));
}

TEST(Verifier, FindsStructuralFaults) {
  {
    Small s;
    s.module.set_entry(nullptr);
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[entry]"));
  }
  {
    Small s;
    s.sum->set_name("x");
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[name]"));
  }
  {
    Small s;
    s.sum->mutable_shape() = Shape(kF32, {3});
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[add_result]"));
  }
  {
    Small s;
    s.main->set_root(nullptr);
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[root]"));
  }
  {
    Small s;
    s.x->mutable_attrs().Set(AttrId::kParameterNumber, int64_t{1});
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[parameter_i1]"));
  }
  {
    Small s;
    s.sum->mutable_attrs().Set(AttrId::kDimensions, Ints{0});
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[add_attributes]"));
  }
  {
    Small s;
    s.module.config().input_output_aliases = {{{}, 5, {}, false}};
    EXPECT_THAT(VerifyModule(s.module).message(), HasSubstr("[input_output_alias]"));
  }
  {
    Module m("m");
    WithCall(&m);
    Instruction* call = m.entry()->root();
    call->set_called(0, m.entry());
    EXPECT_THAT(VerifyModule(m).message(), HasSubstr("[recursion]"));
  }
}

TEST(Builder, RefusesForeignOperandsAndComputations) {
  Small a, b;
  Builder c(&a.module, "c");
  Value p = *c.Parameter(0, Shape(kF32, {2}));
  EXPECT_THAT(c.Unary(Opcode::kTanh, a.x).status().message(), HasSubstr("[operand]"));
  EXPECT_THAT(c.Call(b.main, {p, p}).status().message(), HasSubstr("[called]"));
  EXPECT_THAT(c.Call(c.computation(), {p}).status().message(), HasSubstr("[called]"));
  EXPECT_THAT(c.Parameter(0, Shape(kF32, {2})).status().message(), HasSubstr("[parameter_i1]"));
  EXPECT_THAT(c.Parameter(int64_t{1} << 40, Shape(kF32, {2})).status().message(), HasSubstr("[parameter_i1]"));
}

TEST(Builder, RefusesAttributesOfAnotherKind) {
  Small s;
  Builder c(&s.module, "c");
  Value p = *c.Parameter(0, Shape(kF32, {2}));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, int64_t{0});
  EXPECT_THAT(c.Op(Opcode::kReverse, {p}, std::move(attrs)).status().message(), HasSubstr("[reverse_attributes]"));
}

TEST(Builder, RefusesShapesThatOverflow) {
  Module m("m");
  Builder b(&m, "main");
  EXPECT_FALSE(b.Parameter(0, Shape(kF32, {int64_t{1} << 40, int64_t{1} << 40})).ok());
  Value x = *b.Scalar(kF32, 1);
  EXPECT_FALSE(b.BroadcastInDim(x, {int64_t{1} << 40, int64_t{1} << 40}, {}).ok());
  EXPECT_FALSE(b.BroadcastInDim(x, {-1}, {}).ok());
}

TEST(Builder, BinaryBroadcastErrors) {
  Module m("m");
  Builder b(&m, "main");
  auto array = [&](std::vector<int64_t> dims) {
    return *b.Parameter(static_cast<int64_t>(b.computation()->parameters().size()), Shape(kS32, dims));
  };
  auto label = [&](std::vector<int64_t> x, std::vector<int64_t> y, std::vector<int64_t> dims) {
    return std::string(b.BinaryBroadcast(Opcode::kAdd, array(x), array(y), dims).status().message());
  };
  EXPECT_THAT(label({2, 3}, {3}, {}), HasSubstr("[broadcast_e5]"));
  EXPECT_THAT(label({2, 3, 4, 5}, {4, 3}, {2, 1}), HasSubstr("[broadcast_e6]"));
  EXPECT_THAT(label({2, 3, 4, 5}, {4, 3}, {1, 1}), HasSubstr("[broadcast_e6]"));
  EXPECT_THAT(label({2, 3}, {3}, {2}), HasSubstr("[broadcast_e6]"));
  EXPECT_THAT(label({2, 3}, {3}, {0}), HasSubstr("[broadcast_e7]"));
  EXPECT_THAT(label({7, 2, 5}, {7, 2, 6}, {}), HasSubstr("[broadcast_e8]"));
  EXPECT_THAT(label({2}, {0}, {}), HasSubstr("[broadcast_e8]"));
  EXPECT_EQ((*b.BinaryBroadcast(Opcode::kAdd, array({1}), array({0}), {}))->shape(), Shape(kS32, {0}));
  EXPECT_EQ((*b.BinaryBroadcast(Opcode::kAdd, array({1, 2, 5}), array({7, 2, 5}), {}))->shape(),
            Shape(kS32, {7, 2, 5}));
  EXPECT_EQ((*b.BinaryBroadcast(Opcode::kAdd, array({1, 2}), array({4, 3, 1}), {1, 2}))->shape(),
            Shape(kS32, {4, 3, 2}));
}

TEST(Builder, ScalarBinaryComputationIsMadeOnce) {
  Module m("m");
  Computation* a = *MakeScalarBinaryComputation(&m, Opcode::kAdd, kF32);
  EXPECT_EQ(*MakeScalarBinaryComputation(&m, Opcode::kAdd, kF32), a);
  EXPECT_NE(*MakeScalarBinaryComputation(&m, Opcode::kAdd, kS32), a);
  EXPECT_NE(*MakeScalarBinaryComputation(&m, Opcode::kMaximum, kF32), a);
}

TEST(OpTable, TraitsAgree) {
  for (const OpInfo& info : Operations()) {
    const bool has_window = std::count(info.attributes.begin(), info.attributes.end(), AttrId::kWindow) > 0;
    const bool forwards = info.Has(kForwardsOperand), controls = info.Has(kControlFlow);
    const bool per_element = info.Has(kReduces) || info.Has(kCallsPerElement);
    EXPECT_EQ(info.Has(kReducesWindows), info.Has(kReduces) && has_window) << info.text;
    EXPECT_TRUE(info.Has(kHasCalled) || !(per_element || controls)) << info.text;
    EXPECT_FALSE(per_element && controls) << info.text;
    EXPECT_TRUE(!forwards || info.arity >= 1) << info.text;
  }
}

TEST(OpTable, NamesAndCosts) {
  for (const OpInfo& info : Operations()) {
    EXPECT_EQ(&Info(info.opcode), &info);
    EXPECT_EQ(ParseOpcode(info.text), info.opcode);
  }
  EXPECT_EQ(ParseOpcode("acosh"), std::nullopt);
  EXPECT_EQ(FindByStablehlo("sine"), &Info(Opcode::kSin));
  EXPECT_EQ(FindByStablehlo("chlo.erf"), &Info(Opcode::kErf));
  EXPECT_EQ(FindByStablehlo("case"), &Info(Opcode::kConditional));  // the second of its names
  EXPECT_EQ(FindByStablehlo("-"), nullptr);
  Module m("m");
  Builder b(&m, "main");
  Value x = *b.Parameter(0, Shape(kF32, {8, 16})), y = *b.Parameter(1, Shape(kF32, {16, 4}));
  Value d = *b.Dot(x, y, {{}, {}, {1}, {0}}, kF32);
  Instruction::ContextStorage storage;
  Cost cost = EstimateCost(d->Context(storage), d->shape());
  EXPECT_EQ(cost.flops, 2 * 8 * 16 * 4);
  EXPECT_EQ(cost.bytes_accessed, 4 * (8 * 16 + 16 * 4 + 8 * 4));
  Value t = *b.Unary(Opcode::kTanh, d);
  cost = EstimateCost(t->Context(storage), t->shape());
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.transcendentals, 32);
}

}  // namespace
}  // namespace backplane
