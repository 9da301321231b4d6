#include "plugins/tpu_emulator/program/program_testing.h"

#include <complex>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/ops/attributes.h"
#include "core/passes/rewrite.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/program/kernel_work.h"

namespace backplane::tpu {
namespace {

Shape WithLayouts(const Shape& shape, const Shape* given) {
  if (shape.IsTuple()) {
    std::vector<Shape> elements;
    for (int64_t k = 0; k < shape.tuple_size(); ++k) {
      elements.push_back(WithLayouts(shape.tuple_shapes(k), given != nullptr ? &given->tuple_shapes(k) : nullptr));
    }
    return Shape::Tuple(std::move(elements));
  }
  if (!shape.IsArray()) return shape;
  if (given != nullptr && given->has_layout() && !given->layout().tiles.empty()) return *given;
  Shape out = shape.WithoutLayout();
  out.set_layout(DefaultLayout(shape.element_type(), shape.dimensions()));
  return out;
}

}  // namespace

std::unique_ptr<Module> ParseProgram(absl::string_view hlo) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(hlo);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << hlo;
  if (!module.ok()) return nullptr;
  SetDefaultEntryLayouts(module->get());
  return *std::move(module);
}

void SetDefaultEntryLayouts(Module* module) {
  ModuleConfig& config = module->config();
  std::vector<Shape> parameters;
  for (size_t p = 0; p < module->entry()->parameters().size(); ++p) {
    const bool given = p < config.parameter_layouts.size();
    parameters.push_back(
        WithLayouts(module->entry()->parameters()[p]->shape(), given ? &config.parameter_layouts[p] : nullptr));
  }
  const bool given = config.result_layout.IsArray() || config.result_layout.IsTuple();
  config.result_layout = WithLayouts(module->entry()->root()->shape(), given ? &config.result_layout : nullptr);
  config.parameter_layouts = std::move(parameters);
}

PreparedProgram PrepareFromText(absl::string_view hlo, absl::string_view chip, const PrepareOptions& options) {
  std::unique_ptr<Module> module = ParseProgram(hlo);
  if (module == nullptr) return {};
  absl::StatusOr<PreparedProgram> prepared = PrepareProgram(std::move(module), *FindMachine(chip), options);
  EXPECT_TRUE(prepared.ok()) << prepared.status() << "\n" << hlo;
  if (!prepared.ok()) return {};
  for (const Module* m : {prepared->kernels.get(), prepared->executable.get()}) {
    const absl::Status verified = VerifyModule(*m);
    EXPECT_TRUE(verified.ok()) << verified << "\n" << m->ToString();
  }
  return *std::move(prepared);
}

std::vector<Literal> RandomArguments(const Module& module, uint32_t seed, double low, double high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(low, high);
  std::vector<Literal> arguments;
  const auto fill = [&](const Shape& shape) {
    Literal l(shape.WithoutLayout());
    const PrimitiveType t = shape.element_type();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      if (t == PrimitiveType::kC64) {
        l.mutable_data<std::complex<float>>()[static_cast<size_t>(i)] = {static_cast<float>(real(random)),
                                                                         static_cast<float>(real(random))};
      } else if (t == PrimitiveType::kC128) {
        l.mutable_data<std::complex<double>>()[static_cast<size_t>(i)] = {real(random), real(random)};
      } else if (IsFloat(t)) {
        l.SetFromDouble(i, real(random));
      } else if (t == PrimitiveType::kPred) {
        l.SetFromInt(i, static_cast<int64_t>(random() & 1));
      } else {
        l.SetFromInt(i, static_cast<int64_t>(random() % 9) - (IsSigned(t) ? 4 : 0));
      }
    }
    return l;
  };
  for (const Instruction* p : module.entry()->parameters()) {
    if (!p->shape().IsTuple()) {
      arguments.push_back(p->shape().IsArray() ? fill(p->shape()) : Literal::Token());
      continue;
    }
    std::vector<Literal> elements;
    for (const Shape& e : p->shape().tuple_shapes()) elements.push_back(e.IsArray() ? fill(e) : Literal::Token());
    arguments.push_back(Literal::Tuple(std::move(elements)));
  }
  return arguments;
}

std::string DescribeKernels(const Module& kernels) {
  std::string text;
  std::vector<Computation*> order = CollectControlFlowComputations(&kernels);
  for (auto c = order.rbegin(); c != order.rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      if (!IsKernel(*i)) continue;
      if (!text.empty()) text += "; ";
      if (i->Is(Opcode::kFusion)) {
        const FusionKind kind = i->attrs().GetEnum<FusionKind>(AttrId::kFusionKind);
        absl::StrAppend(&text, FormatEnum(AttrKind::EnumFusionKind, static_cast<int>(kind)), ": ",
                        DescribeKernel(*i, KnownMachines()[1], {}).contents);
      } else {
        absl::StrAppend(&text, OpName(i->opcode()));
      }
    }
  }
  return text;
}

}  // namespace backplane::tpu
