// Every elementwise operation on every element type, compiled by the repository's emitters for both machines and
// executed here, against the evaluator.
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/ir/builder.h"
#include "gtest/gtest.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/Target/TargetMachine.h"
#include "plugins/hip/isa/test_support/kernels.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"

namespace backplane::hip::isa {
namespace {

using codegen::ElementEmitter;
using codegen::IrTarget;
using codegen::Val;

constexpr int64_t kCount = 192;  // elements: whole waves of both machines, in two blocks of 96
constexpr int kThreads = 96;

// One operation on given types. The scalar instruction is emitted, the array one evaluated.
struct Case {
  std::string name;
  std::unique_ptr<Module> scalar, array;
  const Instruction* op = nullptr;
};

constexpr std::array kTypes = {
#define BACKPLANE_X(e, number, name, bits, cls) PrimitiveType::e,
    BACKPLANE_PRIMITIVE_TYPES(BACKPLANE_X)
#undef BACKPLANE_X
};

const Instruction* BuildOperation(Module& module, Opcode opcode, const std::vector<PrimitiveType>& types,
                                  PrimitiveType declared, Attributes attributes, std::vector<int64_t> dims) {
  Builder b(&module, "e");
  std::vector<Value> operands;
  for (size_t i = 0; i < types.size(); ++i) {
    auto p = b.Parameter(static_cast<int64_t>(i), Shape(types[i], dims), absl::StrCat("p", i));
    if (!p.ok()) return nullptr;
    operands.push_back(*p);
  }
  Shape result;
  if (declared != PrimitiveType::kInvalid) result = Shape(declared, dims);
  auto value = b.Op(opcode, operands, std::move(attributes), {}, result);
  if (!value.ok()) return nullptr;
  auto built = b.Build(*value);
  if (!built.ok()) return nullptr;
  module.set_entry(*built);
  return *value;
}

void AddCase(std::vector<Case>& cases, Opcode opcode, const std::vector<PrimitiveType>& types, PrimitiveType declared,
             const Attributes& attributes, const std::string& note = "") {
  Case c;
  c.scalar = std::make_unique<Module>("m");
  c.array = std::make_unique<Module>("m");
  c.op = BuildOperation(*c.scalar, opcode, types, declared, attributes, {});
  if (c.op == nullptr || !ElementEmitter::CanEmit(*c.op).ok()) return;
  ASSERT_NE(BuildOperation(*c.array, opcode, types, declared, attributes, {kCount}), nullptr);
  c.name = absl::StrCat(OpName(opcode), note, "_", Name(types.back()));
  if (declared != PrimitiveType::kInvalid) absl::StrAppend(&c.name, "_", Name(declared));
  cases.push_back(std::move(c));
}

Attributes Precision(int exponent, int mantissa) {
  Attributes a;
  a.Set(AttrId::kExponentBits, AttrValue(int64_t{exponent}));
  a.Set(AttrId::kMantissaBits, AttrValue(int64_t{mantissa}));
  return a;
}

void AddCasesOf(std::vector<Case>& cases, const OpInfo& info, PrimitiveType t) {
  const Opcode opcode = info.opcode;
  if (opcode == Opcode::kConvert || opcode == Opcode::kBitcastConvert) {
    for (PrimitiveType to : kTypes) {
      const bool same_width = IsArrayType(to) && BitWidth(to) == BitWidth(t);
      if (IsArrayType(to) && (opcode == Opcode::kConvert || same_width)) AddCase(cases, opcode, {t}, to, {});
    }
  } else if (opcode == Opcode::kCompare) {
    for (bool total : {false, true}) {
      for (ComparisonDirection d : {ComparisonDirection::kEq, ComparisonDirection::kNe, ComparisonDirection::kGe,
                                    ComparisonDirection::kGt, ComparisonDirection::kLe, ComparisonDirection::kLt}) {
        Attributes a;
        a.SetEnum(AttrId::kDirection, d);
        if (total) a.SetEnum(AttrId::kComparisonType, ComparisonType::kTotalOrder);
        AddCase(cases, opcode, {t, t}, PrimitiveType::kInvalid, a,
                absl::StrCat("_", static_cast<int>(d), total ? "_total" : ""));
      }
    }
  } else if (opcode == Opcode::kReducePrecision) {
    for (auto [e, m] : {std::pair{5, 10}, {8, 7}, {4, 3}, {5, 8}}) {
      AddCase(cases, opcode, {t}, PrimitiveType::kInvalid, Precision(e, m), absl::StrCat("_e", e, "m", m));
    }
  } else if (opcode == Opcode::kSelect) {
    AddCase(cases, opcode, {PrimitiveType::kPred, t, t}, PrimitiveType::kInvalid, {});
  } else {
    AddCase(cases, opcode, std::vector<PrimitiveType>(info.arity, t), PrimitiveType::kInvalid, {});
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const OpInfo& info : Operations()) {
    if (info.opcode != Opcode::kBitcastConvert && !info.Has(kElementwise)) continue;
    for (PrimitiveType t : kTypes) {
      if (IsArrayType(t)) AddCasesOf(cases, info, t);
    }
  }
  return cases;
}

// void symbol(operands..., result): each thread computes one element.
class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const IrTarget& target)
      : module_(module), target_(target), elements_(&module, &target), b_(elements_.b()) {}

  absl::Status Emit(const Case& c, const std::string& symbol) {
    const auto operands = c.op->operands();
    auto* buffer = llvm::PointerType::get(module_.getContext(), target_.buffer_address_space);
    const std::vector<llvm::Type*> parameters(operands.size() + 1, buffer);
    auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), parameters, false),
                                            llvm::Function::ExternalLinkage, symbol, module_);
    SetKernelAttributes(*function, target_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "", function));
    llvm::Value* block = b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_workgroup_id_x, {}, {});
    llvm::Value* thread = b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_workitem_id_x, {}, {});
    llvm::Value* index = b_.CreateAdd(b_.CreateMul(block, b_.getInt32(kThreads)), thread);
    std::vector<Val> values;
    for (size_t i = 0; i < operands.size(); ++i) {
      values.push_back(Load(operands[i]->shape().element_type(), function->getArg(static_cast<unsigned>(i)), index));
    }
    Store(c.op->shape().element_type(), elements_.Emit(*c.op, values),
          function->getArg(static_cast<unsigned>(operands.size())), index);
    b_.CreateRetVoid();
    return elements_.status();
  }

 private:
  llvm::Value* Address(llvm::Type* element, llvm::Value* base, llvm::Value* index, int parts, int part) {
    index = b_.CreateAdd(b_.CreateMul(index, b_.getInt32(parts)), b_.getInt32(part));
    return b_.CreateGEP(element, base, index);
  }
  llvm::Value* LoadPart(llvm::Type* element, llvm::Value* address) {
    return b_.CreateAlignedLoad(element, address, llvm::Align(element->getScalarSizeInBits() / 8));
  }
  Val Load(PrimitiveType t, llvm::Value* base, llvm::Value* index) {
    if (!IsComplex(t)) {
      llvm::Type* element = elements_.StorageType(t);
      return elements_.FromStorage(t, LoadPart(element, Address(element, base, index, 1, 0)));
    }
    llvm::Type* element = elements_.ComputeType(t);
    return {LoadPart(element, Address(element, base, index, 2, 0)),
            LoadPart(element, Address(element, base, index, 2, 1))};
  }
  void Store(PrimitiveType t, const Val& v, llvm::Value* base, llvm::Value* index) {
    llvm::Type* element = IsComplex(t) ? elements_.ComputeType(t) : elements_.StorageType(t);
    const llvm::Align align(element->getScalarSizeInBits() / 8);
    if (!IsComplex(t)) {
      b_.CreateAlignedStore(elements_.ToStorage(t, v), Address(element, base, index, 1, 0), align);
      return;
    }
    b_.CreateAlignedStore(v.v, Address(element, base, index, 2, 0), align);
    b_.CreateAlignedStore(v.im, Address(element, base, index, 2, 1), align);
  }

  llvm::Module& module_;
  const IrTarget& target_;
  ElementEmitter elements_;
  llvm::IRBuilder<>& b_;
};

double RandomNumber(std::mt19937_64& random, int64_t i) {
  static constexpr double kSpecials[] = {0.0, -0.0,  1.0,     -1.0, 0.5,     INFINITY, -INFINITY,
                                         NAN, 1e-40, -1e-310, 1e30, 65504.0, 2.0};
  if (i % 8 == 7) return kSpecials[random() % std::size(kSpecials)];
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
  switch (random() % 4) {
    case 0:
      return unit;
    case 1:
      return unit * 10;
    case 2:
      return unit * 1000;
    default:
      return std::ldexp(unit, static_cast<int>(random() % 40) - 20);
  }
}

Literal RandomArray(PrimitiveType t, std::mt19937_64& random) {
  Literal l(Shape(t, {kCount}));
  for (int64_t i = 0; i < kCount; ++i) {
    if (t == PrimitiveType::kPred) {
      l.SetFromInt(i, static_cast<int64_t>(random() & 1));
    } else if (IsComplex(t)) {
      const double re = RandomNumber(random, 0), im = RandomNumber(random, 0);
      if (t == PrimitiveType::kC64) {
        l.mutable_data<std::complex<float>>()[i] = {static_cast<float>(re), static_cast<float>(im)};
      } else {
        l.mutable_data<std::complex<double>>()[i] = {re, im};
      }
    } else if (IsFloat(t)) {
      l.SetFromDouble(i, RandomNumber(random, i));
    } else {
      const int bits = BitWidth(t), shift = static_cast<int>(random() % bits);
      uint64_t v = random() >> (64 - bits) >> shift;
      if (!IsUnsigned(t) && (random() & 1) != 0) v = 0 - v;
      l.SetFromInt(i, static_cast<int64_t>(v << (64 - bits)) >> (IsUnsigned(t) ? 0 : 64 - bits));
      if (IsUnsigned(t)) l.SetFromInt(i, static_cast<int64_t>(v & (bits == 64 ? ~0ull : (1ull << bits) - 1)));
    }
  }
  return l;
}

// The largest difference, of all operations, that is rounding: steps of the type at the expected value.
double Tolerance(const Case& c, PrimitiveType t) {
  if (!IsFloat(t)) return 0;
  if (c.op->opcode() == Opcode::kReducePrecision || c.op->opcode() == Opcode::kConvert) return 0;
  if (t == PrimitiveType::kF64) return 64 * 0x1p-52;
  if (t == PrimitiveType::kF32) return 64 * 0x1p-23;
  return BitWidth(t) == 16 ? (t == PrimitiveType::kF16 ? 0x1p-10 : 0x1p-7) : 0.5;
}

bool Agree(double got, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (got == expected) return true;
  // Where the tolerance crosses the largest number.
  if (std::isinf(expected) || std::isinf(got)) return false;
  return std::fabs(got - expected) <= tolerance * std::fabs(expected) + (tolerance > 0 ? 1e-37 : 0);
}

std::string FirstDifference(const Case& c, const Literal& got, const Literal& expected) {
  const PrimitiveType t = expected.shape().element_type();
  for (int64_t i = 0; i < kCount; ++i) {
    if (IsComplex(t)) {
      const std::complex<double> g = got.GetAsComplex(i), e = expected.GetAsComplex(i);
      const double tolerance = (t == PrimitiveType::kC64 ? 2e-5 : 1e-11) * std::max(1.0, std::abs(e));
      const bool finite = std::isfinite(std::abs(e));
      if (finite ? std::abs(g - e) <= tolerance : Agree(g.real(), e.real(), 2e-5) && Agree(g.imag(), e.imag(), 2e-5))
        continue;
      return absl::StrCat("element ", i, ": ", g.real(), ", ", g.imag(), " instead of ", e.real(), ", ", e.imag());
    }
    const bool same = IsFloat(t) ? Agree(got.GetAsDouble(i), expected.GetAsDouble(i), Tolerance(c, t))
                                 : got.GetAsInt(i) == expected.GetAsInt(i);
    if (!same) return absl::StrCat("element ", i, ": ", got.GetAsDouble(i), " instead of ", expected.GetAsDouble(i));
  }
  return "";
}

class Elements : public testing::TestWithParam<const char*> {};

TEST_P(Elements, AgreeWithTheEvaluator) {
  InitializeAmdGpu();
  const std::vector<Case> cases = AllCases();
  EXPECT_GT(cases.size(), 2000u);
  const IrTarget target = codegen::AmdGpuTarget(GetParam());
  auto machine = codegen::MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("elements", context);
  codegen::SetModuleTarget(module, target, **machine);
  KernelEmitter emitter(module, target);
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::Status s = emitter.Emit(cases[i], absl::StrCat("k", i));
    ASSERT_TRUE(s.ok()) << cases[i].name << ": " << s;
  }
  codegen::EliminateCommonSubexpressions(module, **machine);
  auto object = codegen::GenerateCode(module, **machine, target, codegen::CodeKind::kObject);
  ASSERT_TRUE(object.ok()) << object.status();
  auto elf = LinkCodeObject(*object);
  ASSERT_TRUE(elf.ok()) << elf.status();
  auto code = LoadCodeObject(*elf);
  ASSERT_TRUE(code.ok()) << code.status();

  std::mt19937_64 random(7);
  int64_t instructions = 0;
  int different = 0, failed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    std::vector<Literal> inputs;
    Arguments arguments;
    for (const Instruction* p : c.op->operands()) inputs.push_back(RandomArray(p->shape().element_type(), random));
    for (const Literal& l : inputs) arguments.Add(l.bytes());
    auto expected = Evaluate(*c.array, inputs);
    ASSERT_TRUE(expected.ok()) << c.name << ": " << expected.status();
    Literal got(expected->shape());
    arguments.Add(got.mutable_bytes());
    Launch launch;
    launch.kernel = absl::StrCat("k", i);
    launch.blocks.x = kCount / kThreads;
    launch.threads.x = kThreads;
    launch.kernarg = arguments.bytes();
    launch.max_instructions = 1'000'000;
    auto s = Execute(**code, launch);
    if (!s.ok()) {
      if (++failed < 30) ADD_FAILURE() << c.name << ": " << s.status();
      continue;
    }
    instructions += s->instructions;
    const std::string difference = FirstDifference(c, got, *expected);
    if (difference.empty()) continue;
    if (++different < 60) ADD_FAILURE() << c.name << ": " << difference;
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(different, 0);
  RecordProperty("instructions", static_cast<int>(instructions));
}

INSTANTIATE_TEST_SUITE_P(Machines, Elements, testing::ValuesIn(kMachines), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
