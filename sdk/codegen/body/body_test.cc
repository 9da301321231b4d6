// Fused bodies as kernels with one element for each work item, compiled for machines of every family: code comes out,
// it is complete, and it is what such a machine wants: natural alignment, and 32-bit positions where it prefers them.
// The same evaluator with lanes is run on the host by the engine's tests.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Target/TargetMachine.h"
#include "sdk/codegen/body/body_evaluator.h"
#include "sdk/codegen/target_machine.h"
#include "sdk/codegen/targets_testing.h"

namespace backplane::codegen {
namespace {

struct Body {
  const char* name;
  const char* hlo;
};

constexpr Body kBodies[] = {
    {"softmax", R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[64,100] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[64,100] broadcast(m), dimensions={0}
  d = f32[64,100] subtract(x, mb)
  p = f32[64,100] exponential(d)
  s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add
  sb = f32[64,100] broadcast(s), dimensions={0}
  ROOT r = f32[64,100] divide(p, sb)
})"},
    {"argmax", R"(HloModule m
pick {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GE
  v = f32[] select(c, a, b)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[31,17] parameter(0)
  n = s32[31,17] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  both = (f32[31], s32[31]) reduce(x, n, low, zero), dimensions={1}, to_apply=pick
  ROOT r = s32[31] get-tuple-element(both), index=1
})"},
    {"moves", R"(HloModule m
ENTRY e {
  x = bf16[12,20] parameter(0)
  table = f32[3] constant({1, 2.5, -4})
  at = s32[] parameter(1)
  rows = s32[12,1] parameter(2)
  zero = bf16[] constant(0)
  padded = bf16[16,20] pad(x, zero), padding=4_0x0_0
  part = bf16[12,20] dynamic-slice(padded, at, at), dynamic_slice_sizes={12,20}
  taken = bf16[12,20] gather(part, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
  back = bf16[12,20] reverse(taken), dimensions={1}
  both = bf16[24,20] concatenate(x, back), dimensions={0}
  t = bf16[20,24] transpose(both), dimensions={1,0}
  u = bf16[160,3] reshape(t)
  w = f32[160,3] convert(u)
  tb = f32[160,3] broadcast(table), dimensions={1}
  ROOT r = f32[160,3] multiply(w, tb)
})"},
    {"window", R"(HloModule m
add { a = f16[] parameter(0) b = f16[] parameter(1) ROOT r = f16[] add(a, b) }
twice { a = f16[] parameter(0) ROOT r = f16[] add(a, a) }
ENTRY e {
  x = f16[14,14] parameter(0)
  zero = f16[] constant(0)
  y = f16[14,14] map(x), dimensions={0,1}, to_apply=twice
  small = f16[14,14] reduce-window(y, zero), window={size=3x3 pad=1_1x1_1}, to_apply=add
  ROOT large = f16[10,10] reduce-window(small, zero), window={size=5x5}, to_apply=add
})"},
    {"complex", R"(HloModule m
ENTRY e {
  x = c64[33] parameter(0)
  bits = u64[33] parameter(1)
  y = c64[33] exponential(x)
  z = c64[33] multiply(x, y)
  parts = u32[33,2] bitcast-convert(bits)
  low = u32[33,1] slice(parts), slice={[0:33], [0:1]}
  flat = u32[33] reshape(low)
  f = f32[33] convert(flat)
  c = c64[33] complex(f, f)
  ROOT r = c64[33] add(z, c)
})"},
    {"control", R"(HloModule m
more { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(10) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[] add(x, x)
  ROOT t = (s32[], f32[]) tuple(j, y)
}
ENTRY e {
  i = s32[] parameter(0)
  x = f32[] parameter(1)
  s = (s32[], f32[]) tuple(i, x)
  w = (s32[], f32[]) while(s), condition=more, body=step
  ROOT r = f32[] get-tuple-element(w), index=1
})"},
};

// void name(inputs..., output, n): the body's element for each number below n that the work item has. `lanes` > 0: a
// loop over them in vectors.
void EmitKernel(ElementEmitter& elements, const Computation& computation, const std::string& name, int lanes) {
  llvm::IRBuilder<>& b = elements.b();
  const IrTarget& target = elements.target();
  llvm::Type* number = b.getIntNTy(static_cast<unsigned>(target.index_bits));
  auto* buffer = llvm::PointerType::get(elements.context(), target.buffer_address_space);
  const unsigned inputs = static_cast<unsigned>(computation.parameters().size());
  std::vector<llvm::Type*> types(inputs + 1, buffer);
  types.push_back(number);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage, name, elements.module());
  SetKernelAttributes(*function, target);
  b.SetInsertPoint(llvm::BasicBlock::Create(elements.context(), "", function));

  VarTable vars;
  LoopScopes scopes(b, vars);
  IndexEvaluator indices(elements, scopes);
  MemoryAccess memory(elements, scopes, indices);
  BodyEvaluator body(elements, scopes, indices, memory);
  for (unsigned i = 0; i < inputs; ++i) {
    const Instruction* p = computation.parameter(i);
    body.SetArray(p, 0, {function->getArg(i), p->shape().element_type()});
  }
  const Instruction* root = computation.root();
  const Shape& shape = root->shape();
  std::vector<VarId> loops;
  Index index;
  for (int64_t n : shape.dimensions()) {
    loops.push_back(vars.Loop(n));
    index.push_back(Affine::Var(loops.back()));
  }
  const ArrayRef out{function->getArg(inputs), shape.element_type()};
  auto store = [&](const Guards& guards) {
    memory.Store(out, Linearize(index, shape.dimensions()), body.Eval(root, index, guards), guards);
  };
  llvm::Value* item = function->getArg(inputs + 1);
  if (shape.rank() == 0) {
    store({});
  } else if (lanes == 0) {
    llvm::Value* exists = b.CreateICmpSLT(item, llvm::ConstantInt::get(number, shape.num_elements()));
    scopes.If(exists, [&] {
      scopes.Bind(loops, item);
      store({});
    });
  } else {
    scopes.Loop(b.getInt64(0), b.getInt64(shape.num_elements()), lanes, [&](llvm::Value* iv) {
      scopes.Bind(loops, iv, lanes);
      store({scopes.TailGuard(loops)});
    });
  }
  b.CreateRetVoid();
}

void CompileAll(const IrTarget& target, int lanes) {
  InitializeTargets();
  auto machine = MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("bodies", context);
  SetModuleTarget(module, target, **machine);
  ElementEmitter elements(&module, &target);
  std::vector<std::unique_ptr<Module>> programs;
  for (const Body& body : kBodies) {
    auto program = ParseHloModule(body.hlo);
    ASSERT_TRUE(program.ok()) << body.name << ": " << program.status();
    EmitKernel(elements, *(*program)->entry(), body.name, lanes);
    ASSERT_TRUE(elements.status().ok()) << body.name << ": " << elements.status();
    programs.push_back(*std::move(program));
  }
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  ASSERT_FALSE(llvm::verifyModule(module, &stream)) << stream.str().substr(0, 2000);
  for (const llvm::Function& f : module) {
    if (!f.hasExternalLinkage() || f.isDeclaration()) continue;
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      if (target.buffer_alignment == 1) continue;
      if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
        EXPECT_GE(load->getAlign().value() * 8, load->getType()->getScalarSizeInBits()) << f.getName().str();
      }
      const bool division = i.getOpcode() == llvm::Instruction::UDiv || i.getOpcode() == llvm::Instruction::URem;
      if (division && target.index_bits == 32) {
        EXPECT_TRUE(i.getType()->isIntegerTy(32)) << f.getName().str();
      }
    }
  }
  EliminateCommonSubexpressions(module, **machine);
  const bool ptx = target.family == TargetFamily::kNvptx;
  auto code = GenerateCode(module, **machine, target, ptx ? CodeKind::kAssembly : CodeKind::kObject);
  ASSERT_TRUE(code.ok()) << code.status();
  std::printf("%s: %zu bodies, %zu bytes of code\n", target.cpu.c_str(), std::size(kBodies), code->size());
  if (ptx) {
    EXPECT_EQ(CountOccurrences(*code, ".extern"), 0) << code->substr(code->find(".extern"), 300);
    EXPECT_EQ(CountOccurrences(*code, ".visible .entry"), static_cast<int>(std::size(kBodies)));
    return;
  }
  const std::vector<std::string> undefined = UndefinedSymbols(*code);
  EXPECT_TRUE(undefined.empty()) << absl::StrJoin(undefined, ", ");
}

TEST(Bodies, X86Scalars) { CompileAll(X86Target(1), 0); }
TEST(Bodies, X86Vectors) { CompileAll(X86Target(3), 8); }
TEST(Bodies, Gfx942) { CompileAll(AmdGpuTarget("gfx942"), 0); }
TEST(Bodies, Gfx1100) { CompileAll(AmdGpuTarget("gfx1100"), 0); }
TEST(Bodies, Sm90) { CompileAll(NvptxTarget("sm_90"), 0); }

}  // namespace
}  // namespace backplane::codegen
