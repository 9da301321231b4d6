// Every element operation on every element type, compiled for machines of every family: code comes out, and it is
// complete: no symbol is left for anyone to supply. Nothing is run here; vector_math_test and element_test of the
// engine run the same emitters' code on the host.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/builder.h"
#include "gtest/gtest.h"
#include "llvm/Target/TargetMachine.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"
#include "sdk/codegen/targets_testing.h"

namespace backplane::codegen {
namespace {

// One operation on given types: an instruction whose operands are parameters.
struct Case {
  std::string name;
  std::unique_ptr<Module> module;
  const Instruction* op = nullptr;
};

constexpr std::array kTypes = {
#define BACKPLANE_X(e, number, name, bits, cls) PrimitiveType::e,
    BACKPLANE_PRIMITIVE_TYPES(BACKPLANE_X)
#undef BACKPLANE_X
};

// Adds the case when the operation accepts these types and a kernel can hold it.
void AddCase(std::vector<Case>& cases, Opcode opcode, const std::vector<PrimitiveType>& types, PrimitiveType declared,
             Attributes attributes, const std::string& note = "") {
  Case c;
  c.module = std::make_unique<Module>("m");
  Builder b(c.module.get(), "e");
  std::vector<Value> operands;
  for (size_t i = 0; i < types.size(); ++i) {
    auto p = b.Parameter(static_cast<int64_t>(i), Shape(types[i], {}), absl::StrCat("p", i));
    ASSERT_TRUE(p.ok()) << p.status();
    operands.push_back(*p);
  }
  Shape result;
  if (declared != PrimitiveType::kInvalid) result = Shape(declared, {});
  auto value = b.Op(opcode, operands, std::move(attributes), {}, result);
  if (!value.ok() || !ElementEmitter::CanEmit(**value).ok()) return;
  c.op = *value;
  auto built = b.Build(*value);
  ASSERT_TRUE(built.ok()) << built.status();
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

// The whole table: each elementwise operation with all types it takes, conversions with all pairs.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const OpInfo& info : Operations()) {
    const Opcode opcode = info.opcode;
    const bool bitcast = opcode == Opcode::kBitcastConvert;
    if (!bitcast && !info.Has(kElementwise)) continue;
    for (PrimitiveType t : kTypes) {
      if (!IsArrayType(t)) continue;
      switch (opcode) {
        case Opcode::kConvert:
        case Opcode::kBitcastConvert:
          for (PrimitiveType to : kTypes) {
            if (IsArrayType(to) && (!bitcast || BitWidth(to) == BitWidth(t))) AddCase(cases, opcode, {t}, to, {});
          }
          break;
        case Opcode::kCompare:
          for (bool total : {false, true}) {
            for (ComparisonDirection d :
                 {ComparisonDirection::kEq, ComparisonDirection::kNe, ComparisonDirection::kGe,
                  ComparisonDirection::kGt, ComparisonDirection::kLe, ComparisonDirection::kLt}) {
              Attributes a;
              a.SetEnum(AttrId::kDirection, d);
              if (total) a.SetEnum(AttrId::kComparisonType, ComparisonType::kTotalOrder);
              AddCase(cases, opcode, {t, t}, PrimitiveType::kInvalid, std::move(a),
                      absl::StrCat("_", static_cast<int>(d), total ? "_total" : ""));
            }
          }
          break;
        case Opcode::kReducePrecision:
          for (auto [e, m] : {std::pair{5, 10}, {8, 7}, {4, 3}, {5, 8}}) {
            AddCase(cases, opcode, {t}, PrimitiveType::kInvalid, Precision(e, m), absl::StrCat("_e", e, "m", m));
          }
          break;
        case Opcode::kSelect:
          AddCase(cases, opcode, {PrimitiveType::kPred, t, t}, PrimitiveType::kInvalid, {});
          break;
        default:
          AddCase(cases, opcode, std::vector<PrimitiveType>(info.arity, t), PrimitiveType::kInvalid, {});
          break;
      }
    }
  }
  return cases;
}

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const IrTarget& target, int lanes)
      : module_(module), target_(target), lanes_(lanes), elements_(&module, &target), b_(elements_.b()) {}

  // void symbol(operands..., result, index): one element, or one vector of them, through the operation.
  absl::Status Emit(const Case& c, const std::string& symbol) {
    llvm::LLVMContext& context = module_.getContext();
    auto* buffer = llvm::PointerType::get(context, target_.buffer_address_space);
    const auto operands = c.op->operands();
    std::vector<llvm::Type*> parameters(operands.size() + 1, buffer);
    parameters.push_back(b_.getIntNTy(target_.index_bits));
    auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), parameters, false),
                                            llvm::Function::ExternalLinkage, symbol, module_);
    SetKernelAttributes(*function, target_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
    llvm::Value* index = function->getArg(static_cast<unsigned>(operands.size() + 1));
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
  llvm::Type* WithLanes(llvm::Type* t) { return lanes_ == 0 ? t : llvm::FixedVectorType::get(t, lanes_); }

  // The parts of a complex number are adjacent; those of vectors are two adjacent vectors.
  llvm::Value* ElementAddress(llvm::Type* element, llvm::Value* base, llvm::Value* index, int parts, int part) {
    index = b_.CreateMul(index, llvm::ConstantInt::get(index->getType(), parts * std::max(lanes_, 1)));
    index = b_.CreateAdd(index, llvm::ConstantInt::get(index->getType(), part * std::max(lanes_, 1)));
    return b_.CreateGEP(element, base, index);
  }
  Val Load(PrimitiveType t, llvm::Value* base, llvm::Value* index) {
    if (!IsComplex(t)) {
      llvm::Type* element = elements_.StorageType(t);
      return elements_.FromStorage(t, Raw(element, ElementAddress(element, base, index, 1, 0)));
    }
    llvm::Type* element = elements_.ComputeType(t);
    return {Raw(element, ElementAddress(element, base, index, 2, 0)),
            Raw(element, ElementAddress(element, base, index, 2, 1))};
  }
  llvm::Value* Raw(llvm::Type* element, llvm::Value* address) {
    return b_.CreateAlignedLoad(WithLanes(element), address, llvm::Align(element->getScalarSizeInBits() / 8));
  }
  void Store(PrimitiveType t, const Val& v, llvm::Value* base, llvm::Value* index) {
    llvm::Type* element = IsComplex(t) ? elements_.ComputeType(t) : elements_.StorageType(t);
    const llvm::Align align(element->getScalarSizeInBits() / 8);
    if (!IsComplex(t)) {
      b_.CreateAlignedStore(elements_.Splat(elements_.ToStorage(t, v), lanes_),
                            ElementAddress(element, base, index, 1, 0), align);
      return;
    }
    b_.CreateAlignedStore(elements_.Splat(v.v, lanes_), ElementAddress(element, base, index, 2, 0), align);
    b_.CreateAlignedStore(elements_.Splat(v.im, lanes_), ElementAddress(element, base, index, 2, 1), align);
  }

  llvm::Module& module_;
  const IrTarget& target_;
  const int lanes_;  // 0: scalars
  ElementEmitter elements_;
  llvm::IRBuilder<>& b_;
};

void CompileAll(const IrTarget& target, int lanes) {
  InitializeTargets();
  const std::vector<Case> cases = AllCases();
  EXPECT_GT(cases.size(), 2000u);
  auto machine = MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("elements", context);
  SetModuleTarget(module, target, **machine);
  EXPECT_EQ(module.getDataLayout().getAllocaAddrSpace(), target.temporary_address_space);
  KernelEmitter emitter(module, target, lanes);
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::Status s = emitter.Emit(cases[i], absl::StrCat("k", i));
    ASSERT_TRUE(s.ok()) << cases[i].name << ": " << s;
  }
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  ASSERT_FALSE(llvm::verifyModule(module, &stream)) << stream.str().substr(0, 2000);
  EliminateCommonSubexpressions(module, **machine);
  const bool ptx = target.family == TargetFamily::kNvptx;
  auto code = GenerateCode(module, **machine, target, ptx ? CodeKind::kAssembly : CodeKind::kObject);
  ASSERT_TRUE(code.ok()) << code.status();
  std::printf("%s: %zu operations on types, %zu bytes of code\n", target.cpu.c_str(), cases.size(), code->size());
  if (ptx) {
    EXPECT_EQ(CountOccurrences(*code, ".extern"), 0) << code->substr(code->find(".extern"), 300);
    EXPECT_EQ(CountOccurrences(*code, ".visible .entry"), static_cast<int>(cases.size()));
    return;
  }
  const std::vector<std::string> undefined = UndefinedSymbols(*code);
  EXPECT_TRUE(undefined.empty()) << absl::StrJoin(undefined, ", ");
}

// The check itself: what the C library would have to supply is found.
TEST(Targets, UndefinedSymbolsAreSeen) {
  InitializeTargets();
  const IrTarget target = X86Target(3);
  auto machine = MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("m", context);
  SetModuleTarget(module, target, **machine);
  llvm::IRBuilder<> b(context);
  auto* type = llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy(), b.getDoubleTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "f", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "", f));
  b.CreateRet(b.CreateFRem(f->getArg(0), f->getArg(1)));
  auto code = GenerateCode(module, **machine, target, CodeKind::kObject);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(UndefinedSymbols(*code), std::vector<std::string>{"fmod"});
}

TEST(Targets, X86Level1Scalars) { CompileAll(X86Target(1), 0); }
TEST(Targets, X86Level3Vectors) { CompileAll(X86Target(3), 8); }
TEST(Targets, Gfx942) { CompileAll(AmdGpuTarget("gfx942"), 0); }
TEST(Targets, Gfx1100) { CompileAll(AmdGpuTarget("gfx1100"), 0); }
TEST(Targets, Sm90) { CompileAll(NvptxTarget("sm_90"), 0); }

}  // namespace
}  // namespace backplane::codegen
