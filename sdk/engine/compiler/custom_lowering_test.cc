// A plugin's lowering: what it claims reaches it as the program has it, everything else is the engine's.
#include "sdk/engine/compiler/custom_lowering.h"

#include <cmath>
#include <vector>

#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::engine {
namespace {

// Writes 7 everywhere, whatever the operands are.
class SevenThunk : public Thunk {
 public:
  SevenThunk(SlotId out, int64_t count) : out_(out), count_(count) {}
  absl::Status Run(const RunState& state) const override {
    for (int64_t i = 0; i < count_; ++i) static_cast<float*>(state.slots[out_])[i] = 7;
    return absl::OkStatus();
  }

 private:
  SlotId out_;
  int64_t count_;
};

class Sevens : public CustomLowering {
 public:
  explicit Sevens(Opcode opcode) : opcode_(opcode) {}
  bool Claims(const Instruction& i) const override { return i.Is(opcode_); }
  absl::StatusOr<std::unique_ptr<Thunk>> MakeThunk(const Instruction& i, const BufferAssignment& assignment,
                                                   std::vector<std::string>* log) const override {
    if (i.Is(Opcode::kDot)) operand_types.push_back(i.operand(0)->shape().element_type());
    return std::make_unique<SevenThunk>(assignment.slot(&i), i.shape().num_elements());
  }
  mutable std::vector<PrimitiveType> operand_types;

 private:
  const Opcode opcode_;
};

absl::StatusOr<std::vector<float>> Result(const CustomLowering* lowering, const std::vector<float>& argument) {
  // The dot's operands are of a type that the library has not, its result is transposed: both would be rewritten.
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(
      "HloModule m\nENTRY e {\n"
      "  x = f32[2,3] parameter(0)\n"
      "  n = f8e4m3fn[2,3] convert(x)\n"
      "  d = f32[3,3] dot(n, n), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "  t = f32[3,3] transpose(d), dimensions={1,0}\n"
      "  h = f32[3,3] tanh(t)\n"
      "  ROOT r = f32[3,3] add(h, t)\n}\n");
  if (!module.ok()) return module.status();
  if (absl::Status s = LowerForEngine(module->get(), lowering, nullptr); !s.ok()) return s;
  ProgramOptions options = OptionsForRuntime(nullptr);
  options.lowering = lowering;
  std::vector<std::string> log;
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Build(*std::move(module), options, &log);
  if (!program.ok()) return program.status();
  alignas(64) float in[64] = {}, out[64] = {};
  std::copy(argument.begin(), argument.end(), in);
  void *arguments[] = {in}, *outputs[] = {out};
  Runtime& runtime = Runtime::Get();
  if (absl::Status s = (*program)->Run(arguments, outputs, &runtime.pool, &runtime.memory, ExecutionContext()); !s.ok())
    return s;
  return std::vector<float>(out, out + 9);
}

TEST(CustomLoweringTest, NothingIsClaimed) {
  auto result = Result(nullptr, {1, 2, 0, 1, 0, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  const float sums[] = {2, 2, 1, 2, 4, 0, 1, 0, 1};
  for (int i = 0; i < 9; ++i) EXPECT_NEAR((*result)[static_cast<size_t>(i)], sums[i] + std::tanh(sums[i]), 1e-6) << i;
}

TEST(CustomLoweringTest, AContraction) {
  const Sevens lowering(Opcode::kDot);
  auto result = Result(&lowering, {1, 2, 0, 1, 0, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(lowering.operand_types, testing::ElementsAre(PrimitiveType::kF8E4M3FN));  // not legalized
  for (float x : *result) EXPECT_NEAR(x, 7 + std::tanh(7.0f), 1e-6);
}

TEST(CustomLoweringTest, WhatAKernelWouldContain) {
  const Sevens lowering(Opcode::kTanh);
  auto result = Result(&lowering, {1, 2, 0, 1, 0, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  const float sums[] = {2, 2, 1, 2, 4, 0, 1, 0, 1};
  for (int i = 0; i < 9; ++i) EXPECT_EQ((*result)[static_cast<size_t>(i)], sums[i] + 7) << i;
}

}  // namespace
}  // namespace backplane::engine
