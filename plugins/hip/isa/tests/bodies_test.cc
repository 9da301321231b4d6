// Fused bodies by the repository's evaluator of bodies: reductions, windows, gathers, loops. One element for each
// thread, executed on both machines, against the evaluator.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/Target/TargetMachine.h"
#include "plugins/hip/isa/test_support/kernels.h"
#include "sdk/codegen/body/body_evaluator.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"

namespace backplane::hip::isa {
namespace {

struct Program {
  const char* name;
  const char* hlo;
  int largest_integer = 0;  // of integer inputs, which are positions
};

constexpr Program kPrograms[] = {
    {"layer_norm", R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[24,50] parameter(0)
  zero = f32[] constant(0)
  n = f32[] constant(0.02)
  nb = f32[24] broadcast(n), dimensions={}
  s = f32[24] reduce(x, zero), dimensions={1}, to_apply=add
  mean = f32[24] multiply(s, nb)
  mb = f32[24,50] broadcast(mean), dimensions={0}
  d = f32[24,50] subtract(x, mb)
  q = f32[24,50] multiply(d, d)
  v = f32[24] reduce(q, zero), dimensions={1}, to_apply=add
  w = f32[24] multiply(v, nb)
  i = f32[24] rsqrt(w)
  ib = f32[24,50] broadcast(i), dimensions={0}
  ROOT r = f32[24,50] multiply(d, ib)
})"},
    {"argmin", R"(HloModule m
pick {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=LE
  v = f32[] select(c, a, b)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[40,23] parameter(0)
  n = s32[40,23] iota(), iota_dimension=1
  high = f32[] constant(inf)
  zero = s32[] constant(0)
  both = (f32[40], s32[40]) reduce(x, n, high, zero), dimensions={1}, to_apply=pick
  ROOT r = s32[40] get-tuple-element(both), index=1
})"},
    {"gather_and_pad", R"(HloModule m
ENTRY e {
  x = bf16[10,18] parameter(0)
  rows = s32[10,1] parameter(1)
  zero = bf16[] constant(0)
  taken = bf16[10,18] gather(x, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,18}
  padded = bf16[13,18] pad(taken, zero), padding=1_2x0_0
  back = bf16[13,18] reverse(padded), dimensions={0}
  t = bf16[18,13] transpose(back), dimensions={1,0}
  w = f32[18,13] convert(t)
  ROOT r = f32[18,13] exponential(w)
})",
     9},
    {"window", R"(HloModule m
max { a = f16[] parameter(0) b = f16[] parameter(1) ROOT r = f16[] maximum(a, b) }
add { a = f16[] parameter(0) b = f16[] parameter(1) ROOT r = f16[] add(a, b) }
ENTRY e {
  x = f16[12,12] parameter(0)
  low = f16[] constant(-inf)
  zero = f16[] constant(0)
  y = f16[12,12] reduce-window(x, low), window={size=3x3 pad=1_1x1_1}, to_apply=max
  ROOT r = f16[9,9] reduce-window(y, zero), window={size=4x4}, to_apply=add
})"},
    {"loop", R"(HloModule m
more { s = (s32[], f64[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f64[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f64[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  h = f64[] constant(0.5)
  c = f64[] cosine(x)
  y = f64[] multiply(c, h)
  ROOT t = (s32[], f64[]) tuple(j, y)
}
ENTRY e {
  i = s32[] constant(0)
  x = f64[] parameter(0)
  s = (s32[], f64[]) tuple(i, x)
  w = (s32[], f64[]) while(s), condition=more, body=step
  ROOT r = f64[] get-tuple-element(w), index=1
})"},
    {"integers", R"(HloModule m
add { a = s64[] parameter(0) b = s64[] parameter(1) ROOT r = s64[] add(a, b) }
ENTRY e {
  x = s32[30,7] parameter(0)
  d = s32[30,7] iota(), iota_dimension=1
  one = s32[] constant(1)
  ob = s32[30,7] broadcast(one), dimensions={}
  e = s32[30,7] add(d, ob)
  q = s32[30,7] divide(x, e)
  m = s32[30,7] remainder(x, e)
  p = s32[30,7] multiply(q, m)
  w = s64[30,7] convert(p)
  zero = s64[] constant(0)
  ROOT r = s64[30] reduce(w, zero), dimensions={1}, to_apply=add
})",
     1000000},
};

// void name(inputs..., output): the thread's element of the body.
absl::Status EmitKernel(codegen::ElementEmitter& elements, const Computation& computation, const std::string& name) {
  llvm::IRBuilder<>& b = elements.b();
  const codegen::IrTarget& target = elements.target();
  const unsigned inputs = static_cast<unsigned>(computation.parameters().size());
  auto* buffer = llvm::PointerType::get(elements.context(), target.buffer_address_space);
  const std::vector<llvm::Type*> types(inputs + 1, buffer);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage, name, elements.module());
  SetKernelAttributes(*function, target);
  b.SetInsertPoint(llvm::BasicBlock::Create(elements.context(), "", function));
  llvm::Value* block = b.CreateIntrinsic(llvm::Intrinsic::amdgcn_workgroup_id_x, {}, {});
  llvm::Value* thread = b.CreateIntrinsic(llvm::Intrinsic::amdgcn_workitem_id_x, {}, {});
  llvm::Value* item = b.CreateAdd(b.CreateMul(block, b.getInt32(64)), thread);
  item = b.CreateZExt(item, b.getIntNTy(static_cast<unsigned>(target.index_bits)));

  codegen::VarTable vars;
  codegen::LoopScopes scopes(b, vars);
  codegen::IndexEvaluator indices(elements, scopes);
  codegen::MemoryAccess memory(elements, scopes, indices);
  codegen::BodyEvaluator body(elements, scopes, indices, memory);
  for (unsigned i = 0; i < inputs; ++i) {
    body.SetArray(computation.parameter(i), 0, {function->getArg(i), computation.parameter(i)->shape().element_type()});
  }
  const Instruction* root = computation.root();
  std::vector<codegen::VarId> loops;
  codegen::Index index;
  for (int64_t n : root->shape().dimensions()) {
    loops.push_back(vars.Loop(n));
    index.push_back(codegen::Affine::Var(loops.back()));
  }
  llvm::Value* exists = b.CreateICmpSLT(item, llvm::ConstantInt::get(item->getType(), root->shape().num_elements()));
  scopes.If(exists, [&] {
    if (!loops.empty()) scopes.Bind(loops, item);
    memory.Store({function->getArg(inputs), root->shape().element_type()}, Linearize(index, root->shape().dimensions()),
                 body.Eval(root, index, {}), {});
  });
  b.CreateRetVoid();
  return elements.status();
}

class Bodies : public testing::TestWithParam<const char*> {};

TEST_P(Bodies, AgreeWithTheEvaluator) {
  InitializeAmdGpu();
  const codegen::IrTarget target = codegen::AmdGpuTarget(GetParam());
  auto machine = codegen::MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("bodies", context);
  codegen::SetModuleTarget(module, target, **machine);
  codegen::ElementEmitter elements(&module, &target);
  std::vector<std::unique_ptr<Module>> programs;
  for (const Program& p : kPrograms) {
    auto program = ParseHloModule(p.hlo);
    ASSERT_TRUE(program.ok()) << p.name << ": " << program.status();
    const absl::Status s = EmitKernel(elements, *(*program)->entry(), p.name);
    ASSERT_TRUE(s.ok()) << p.name << ": " << s;
    programs.push_back(*std::move(program));
  }
  codegen::EliminateCommonSubexpressions(module, **machine);
  auto object = codegen::GenerateCode(module, **machine, target, codegen::CodeKind::kObject);
  ASSERT_TRUE(object.ok()) << object.status();
  auto elf = LinkCodeObject(*object);
  ASSERT_TRUE(elf.ok()) << elf.status();

  std::mt19937 random(3);
  for (size_t n = 0; n < programs.size(); ++n) {
    const Program& p = kPrograms[n];
    std::vector<Literal> inputs;
    Arguments arguments;
    for (const Instruction* parameter : programs[n]->entry()->parameters()) {
      Literal l(parameter->shape());
      for (int64_t i = 0; i < l.num_elements(); ++i) {
        if (IsFloat(l.shape().element_type())) {
          l.SetFromDouble(i, static_cast<double>(random()) * 0x1p-31 - 1);
        } else {
          l.SetFromInt(i, random() % (static_cast<uint32_t>(p.largest_integer) + 1));
        }
      }
      inputs.push_back(std::move(l));
    }
    for (const Literal& l : inputs) arguments.Add(l.bytes());
    auto expected = Evaluate(*programs[n], inputs);
    ASSERT_TRUE(expected.ok()) << p.name << ": " << expected.status();
    Literal got(expected->shape());
    arguments.Add(got.mutable_bytes());
    const uint32_t blocks = static_cast<uint32_t>((expected->num_elements() + 63) / 64);
    auto s = RunKernel(*elf, p.name, {blocks}, {64}, arguments);
    ASSERT_TRUE(s.ok()) << s.status();
    const PrimitiveType t = expected->shape().element_type();
    const double tolerance = t == PrimitiveType::kF16   ? 0x1p-10
                             : t == PrimitiveType::kF64 ? 1e-13
                             : IsFloat(t)               ? 1e-5
                                                        : 0;
    for (int64_t i = 0; i < got.num_elements(); ++i) {
      const double e = expected->GetAsDouble(i);
      ASSERT_NEAR(got.GetAsDouble(i), e, tolerance * std::max(1.0, std::fabs(e))) << p.name << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Bodies, testing::ValuesIn(kMachines), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace backplane::hip::isa
