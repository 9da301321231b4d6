// Shape rules on numbers that no program has: whatever the shapes and attributes, a rule ends in a shape that is valid
// or in an error, and never looks outside its lists. Runs long enough to find what stands unguarded; under the
// sanitizers it finds overflows too.
#include <random>

#include "core/ir/ops/ops.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

class Absurd {
 public:
  explicit Absurd(uint32_t seed) : random_(seed) {}

  int64_t Number() {
    static constexpr int64_t kNumbers[] = {-1,
                                           0,
                                           1,
                                           2,
                                           3,
                                           4,
                                           7,
                                           int64_t{1} << 31,
                                           int64_t{1} << 40,
                                           int64_t{1} << 61,
                                           int64_t{1} << 62,
                                           INT64_MAX,
                                           INT64_MIN,
                                           INT64_MIN + 1};
    return Usual() ? Pick(4) : kNumbers[Pick(std::size(kNumbers))];
  }
  Ints Numbers() {
    Ints v(Pick(4));
    for (int64_t& n : v) n = Number();
    return v;
  }
  PrimitiveType Type() {
    static constexpr PrimitiveType kTypes[] = {PrimitiveType::kF32,  PrimitiveType::kF32, PrimitiveType::kS32,
                                               PrimitiveType::kPred, PrimitiveType::kC64, PrimitiveType::kS4,
                                               PrimitiveType::kU64,  PrimitiveType::kBF16};
    return kTypes[Pick(std::size(kTypes))];
  }
  // Valid, as every operand is; up to 2^62 bytes.
  Shape OperandShape(int depth = 0) {
    if (depth < 3 && Pick(8) == 0) {
      std::vector<Shape> elements(Pick(4));
      for (Shape& s : elements) s = OperandShape(depth + 1);
      return Shape::Tuple(std::move(elements));
    }
    if (Pick(16) == 0) return Shape::Token();
    for (;;) {
      DimVector dims(Pick(4));
      for (int64_t& d : dims) d = Number();
      Shape s(Type(), dims);
      if (!dims.empty() && Pick(8) == 0) s.set_dynamic(static_cast<int64_t>(Pick(dims.size())), true);
      if (s.Validate().ok()) return s;
    }
  }
  Shape AnyShape() {
    DimVector dims(Pick(4));
    for (int64_t& d : dims) d = Number();
    return Pick(3) == 0 ? OperandShape() : Shape(Type(), dims);
  }
  DotDimensions Dot() { return {Numbers(), Numbers(), Numbers(), Numbers()}; }
  IotaDevices Devices() { return {Numbers(), Numbers(), Numbers()}; }

  AttrValue Value(AttrId id) {
    switch (GetKind(id)) {
      case AttrKind::Bool:
        return Pick(2) == 0;
      case AttrKind::Int:
        return Number();
      case AttrKind::Double:
        return static_cast<double>(Number());
      case AttrKind::String:
        return std::string(Pick(3), '.');
      case AttrKind::Ints:
        return Numbers();
      case AttrKind::Type:
        return Type();
      case AttrKind::Shapes:
        return std::vector<Shape>(Pick(3), AnyShape());
      case AttrKind::Window: {
        Window w;
        w.dimensions.resize(Pick(4));
        for (WindowDimension& d : w.dimensions) {
          d = {Number(), Number(), Number(), Number(), Number(), Number(), Pick(2) == 0};
        }
        return w;
      }
      case AttrKind::ConvDims:
        return ConvolutionDimensions{Number(),  Number(), Numbers(), Number(), Number(),
                                     Numbers(), Number(), Number(),  Numbers()};
      case AttrKind::DotDims:
        return Dot();
      case AttrKind::RaggedDims:
        return RaggedDotDimensions{Dot(), Numbers(), Numbers()};
      case AttrKind::GatherDims:
        return GatherDimensions{Numbers(), Numbers(), Numbers(), Numbers(), Numbers(), Number()};
      case AttrKind::ScatterDims:
        return ScatterDimensions{Numbers(), Numbers(), Numbers(), Numbers(), Numbers(), Number()};
      case AttrKind::Padding: {
        PaddingConfig p(Pick(4));
        for (PaddingDimension& d : p) d = {Number(), Number(), Number()};
        return p;
      }
      case AttrKind::Slices: {
        SliceConfig s(Pick(4));
        for (SliceDimension& d : s) d = {Number(), Number(), Number()};
        return s;
      }
      case AttrKind::Groups: {
        ReplicaGroups g;
        if (Pick(2) == 0) g.iota = Devices();
        for (size_t i = Pick(3); i > 0; --i) g.groups.push_back(Numbers());
        return g;
      }
      case AttrKind::Pairs: {
        Pairs p(Pick(3));
        for (auto& [source, target] : p) source = Number(), target = Number();
        return p;
      }
      case AttrKind::Precisions:
        return Precisions(Pick(4), Precision::kHigh);
      case AttrKind::Algorithm:
        return DotAlgorithm{Type(), Type(), Type(), Number(), Number(), Number(), false};
      case AttrKind::Aliases:
        return OutputOperandAliases{{Numbers(), Number(), Numbers()}};
      case AttrKind::Ffi:
        return FfiDictionary();
      default:
        return EnumValue{static_cast<int32_t>(Pick(300)) - 20};
    }
  }

  size_t Pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool Usual() { return Pick(3) != 0; }

 private:
  std::mt19937 random_;
};

TEST(Absurd, ShapeRulesEnd) {
  int64_t accepted = 0, refused = 0;
  for (const OpInfo& info : Operations()) {
    const Opcode opcode = info.opcode;
    SCOPED_TRACE(info.text);
    Absurd absurd(static_cast<uint32_t>(opcode));
    for (int round = 0; round < 4000; ++round) {
      Attributes attrs;
      for (AttrId id : info.attributes) {
        if (absurd.Pick(8) != 0) attrs.Set(id, absurd.Value(id));
      }
      std::vector<Shape> shapes(static_cast<size_t>(info.arity) <= 6 ? static_cast<size_t>(info.arity)
                                                                     : absurd.Pick(6));
      // Often of one shape, so that later rules are met too.
      const Shape common = absurd.OperandShape();
      for (Shape& s : shapes) s = absurd.Usual() ? common : absurd.OperandShape();
      std::vector<const Shape*> operands;
      for (const Shape& s : shapes) operands.push_back(&s);
      std::vector<ProgramShape> called(info.Has(kHasCalled) ? 1 + absurd.Pick(2) : 0);
      for (ProgramShape& p : called) {
        const Shape scalar = Shape::Scalar(common.IsArray() ? common.element_type() : PrimitiveType::kF32);
        p.parameters.resize(absurd.Pick(5), scalar);
        p.result = absurd.Usual() ? scalar : absurd.OperandShape();
      }
      const Shape declared = absurd.AnyShape();
      OpContext op;
      op.opcode = opcode;
      op.operands = operands;
      op.attrs = &attrs;
      op.called = called;
      if (absurd.Pick(2) == 0) op.declared = absurd.Usual() ? &common : &declared;
      const absl::StatusOr<Shape> result = InferShape(op);
      if (!result.ok()) {
        EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
        EXPECT_EQ(result.status().message().back(), ']') << result.status();
        ++refused;
        continue;
      }
      EXPECT_TRUE(result->Validate().ok()) << result->ToString();
      EstimateCost(op, *result);
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(refused, 10000);
}

// The builder's own sums too.
TEST(Absurd, BuilderCallsEnd) {
  Absurd absurd(7);
  for (int round = 0; round < 3000; ++round) {
    Module module("m");
    Builder b(&module, "main");
    auto value = [&](int64_t n) { return b.Parameter(n, absurd.OperandShape()).value(); };
    const Value x = value(0), y = value(1);
    const Ints l = absurd.Numbers(), m = absurd.Numbers(), n = absurd.Numbers(), k = absurd.Numbers();
    const hlo::Padding padding = absurd.Pick(2) == 0 ? hlo::Padding::kSame : hlo::Padding::kValid;
    ReplicaGroups groups;
    groups.groups = {l, m};
    Computation* add = MakeScalarBinaryComputation(&module, Opcode::kAdd, PrimitiveType::kF32).value();
    hlo::Result results[] = {
        hlo::Add(b, x, y, l),
        hlo::Lt(b, x, y, m),
        hlo::Select(b, x, y, y),
        hlo::BitcastConvertType(b, x, absurd.Type()),
        hlo::Broadcast(b, x, l),
        hlo::BroadcastInDim(b, x, l, m),
        hlo::Collapse(b, x, l),
        hlo::Reshape(b, x, l),
        hlo::Slice(b, x, l, m, n),
        hlo::Sort(b, {x, y}, add, absurd.Number()),
        hlo::ReduceWindow(b, {x}, {y}, add, l, m, n, k, padding),
        hlo::SelectAndScatter(b, x, add, l, m, padding, y, y, add),
        hlo::Dot(b, x, y),
        hlo::Conv(b, x, y, l, padding, absurd.Number(), absurd.Number()),
        hlo::ConvGeneralDilated(b, x, y, l, {{absurd.Number(), absurd.Number()}}, m, n,
                                hlo::DefaultConvolutionDimensions(1), absurd.Number(), absurd.Number()),
        hlo::AllGather(b, x, absurd.Number(), absurd.Number(), groups),
        hlo::ReduceScatter(b, x, add, absurd.Number(), absurd.Number(), groups),
        hlo::AllToAll(b, x, absurd.Number(), absurd.Number(), absurd.Number(), groups),
        hlo::DynamicReshape(b, x, {y}, l, {true}),
    };
    for (const hlo::Result& r : results) {
      if (r.ok()) {
        EXPECT_TRUE((*r)->shape().Validate().ok());
      } else {
        EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument) << r.status();
        EXPECT_EQ(r.status().message().back(), ']') << r.status();
      }
    }
  }
}

}  // namespace
}  // namespace backplane
