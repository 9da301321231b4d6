#include "sdk/engine/codegen/kernel_testing.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/engine/codegen/close_testing.h"

namespace backplane::engine::codegen {
namespace {

struct Block {
  explicit Block(int64_t bytes) : data(std::aligned_alloc(64, (bytes + 127) / 64 * 64), &std::free), size(bytes) {
    std::memset(data.get(), 0xcd, (bytes + 127) / 64 * 64);
  }
  // Whether anything was written past the end.
  bool HasOverrun() const {
    auto* p = static_cast<const unsigned char*>(data.get());
    for (int64_t i = size; i < (size + 127) / 64 * 64; ++i) {
      if (p[i] != 0xcd) return true;
    }
    return false;
  }
  std::unique_ptr<void, decltype(&std::free)> data;
  int64_t size;
};

double Precision(PrimitiveType t, double f32) {
  switch (t) {
    case PrimitiveType::kF64:
    case PrimitiveType::kC128:
      return f32 * 1e-7;
    case PrimitiveType::kF32:
    case PrimitiveType::kC64:
      return f32;
    case PrimitiveType::kBF16:
      return std::max(f32, 1.0 / 100);
    case PrimitiveType::kF16:
      return std::max(f32, 1.0 / 700);
    default:
      return std::max(f32, 0.3);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TestKernel>> TestKernel::Make(const std::string& hlo, const RunOptions& options) {
  auto kernel = std::make_unique<TestKernel>();
  kernel->options_ = options;
  ASSIGN_OR_RETURN(kernel->module_, ParseHloModule(hlo));
  const Computation& c = *kernel->module_->entry();
  kernel->host_ = options.max_vector_bytes == 64 ? jit::Host() : jit::DetectHost(options.max_vector_bytes);
  auto before = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(kernel->plan_, PlanKernel(c, "k", &kernel->host_));
  if (options.share && !kernel->plan_.in_place.empty()) {
    kernel->shared_ = kernel->plan_.in_place;
    ASSIGN_OR_RETURN(kernel->plan_, ShareMemory(kernel->plan_, kernel->shared_, "k"));
  }
  jit::CompileOptions compile;
  compile.host = &kernel->host_;
  compile.verify = true;
  if (options.keep_code || std::getenv("KERNEL_TEST_DUMP") != nullptr) {
    compile.asm_dump = &kernel->assembly_;
    compile.ir_dump = &kernel->ir_;
  }
  auto start = std::chrono::steady_clock::now();
  kernel->plan_ms_ = std::chrono::duration<double, std::milli>(start - before).count();
  TestKernel* k = kernel.get();
  ASSIGN_OR_RETURN(std::vector<jit::ObjectCode> objects, jit::CompileModules(
                                                             1,
                                                             [&](int, llvm::Module& module) {
                                                               KernelRequest request{k->plan_.fusion, "k"};
                                                               return EmitKernels({&request, 1}, module);
                                                             },
                                                             nullptr, compile));
  kernel->emit_ms_ = objects[0].emit_ms;
  ASSIGN_OR_RETURN(kernel->library_, jit::CodeLibrary::Link(objects));
  kernel->compile_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (const KernelPhase& p : kernel->plan_.phases) {
    ASSIGN_OR_RETURN(KernelFn f, kernel->library_->LookupFunction<KernelFn>(p.symbol));
    kernel->functions_.push_back(f);
  }
  return kernel;
}

std::vector<Shape> TestKernel::OutputShapes() const {
  const Shape& s = module_->entry()->root()->shape();
  if (!s.IsTuple()) return {s};
  return {s.tuple_shapes().begin(), s.tuple_shapes().end()};
}

absl::StatusOr<std::vector<Literal>> TestKernel::Run(const std::vector<Literal>& inputs) {
  std::vector<Block> blocks;
  std::vector<void*> buffers;
  for (const Literal& l : inputs) {
    blocks.emplace_back(l.byte_size());
    std::memcpy(blocks.back().data.get(), l.bytes(), l.byte_size());
    buffers.push_back(blocks.back().data.get());
  }
  std::vector<Shape> shapes = OutputShapes();
  for (size_t j = 0; j < shapes.size(); ++j) {
    void* memory = nullptr;
    for (const InPlacePair& p : shared_) {
      if (p.output == static_cast<int>(j)) memory = buffers[p.input];
    }
    if (memory == nullptr) {
      blocks.emplace_back(shapes[j].byte_size());
      memory = blocks.back().data.get();
    }
    buffers.push_back(memory);
  }
  for (int64_t bytes : plan_.temp_bytes) {
    blocks.emplace_back(bytes);
    buffers.push_back(blocks.back().data.get());
  }
  Block scratch(plan_.scratch_bytes);
  for (size_t k = 0; k < plan_.phases.size(); ++k) {
    int64_t items = plan_.phases[k].work_items;
    int64_t step = std::max<int64_t>(1, (items + options_.chunks - 1) / options_.chunks);
    // Ranges in an odd order: none may depend on another.
    std::vector<int64_t> begins;
    for (int64_t b = 0; b < items; b += step) begins.push_back(b);
    for (size_t i = begins.size(); i-- > 0;) {
      functions_[k](buffers.data(), begins[i], std::min(items, begins[i] + step), scratch.data.get());
    }
  }
  for (const Block& b : blocks) {
    if (b.HasOverrun()) return absl::InternalError("the kernel wrote past the end of a buffer");
  }
  if (scratch.HasOverrun()) return absl::InternalError("the kernel wrote past the end of its scratch");
  std::vector<Literal> results;
  for (size_t j = 0; j < shapes.size(); ++j) {
    Shape s = shapes[j];
    s.clear_layout();
    ASSIGN_OR_RETURN(Literal l, Literal::FromBytes(s, {static_cast<std::byte*>(buffers[inputs.size() + j]),
                                                       static_cast<size_t>(s.byte_size())}));
    results.push_back(std::move(l));
  }
  return results;
}

void TestKernel::RunRaw(void* const* buffers) {
  if (scratch_.size() < static_cast<size_t>(plan_.scratch_bytes) + 64) scratch_.resize(plan_.scratch_bytes + 64);
  void* scratch = scratch_.data() + (64 - reinterpret_cast<uintptr_t>(scratch_.data()) % 64);
  for (size_t k = 0; k < plan_.phases.size(); ++k) {
    if (plan_.phases[k].work_items > 0) functions_[k](buffers, 0, plan_.phases[k].work_items, scratch);
  }
}

std::vector<Literal> TestKernel::RandomInputs() const {
  std::mt19937 random(options_.seed);
  std::uniform_real_distribution<double> real(options_.low, options_.high);
  std::uniform_int_distribution<int64_t> integer(options_.int_low, options_.int_high);
  std::vector<Literal> inputs;
  for (const Instruction* p : module_->entry()->parameters()) {
    Shape s = p->shape();
    s.clear_layout();
    Literal l(s);
    PrimitiveType t = s.element_type();
    auto draw = [&] {
      if (options_.specials && random() % 8 == 0) {
        constexpr double kInf = std::numeric_limits<double>::infinity();
        const double list[] = {kInf, -kInf, std::nan(""), 0.0, -0.0, 1e-40, 1e30, 1};
        return list[random() % 8];
      }
      return real(random);
    };
    for (int64_t i = 0; i < s.num_elements(); ++i) {
      if (t == PrimitiveType::kPred) {
        l.SetFromInt(i, integer(random) & 1);
      } else if (IsComplex(t)) {
        auto* bytes = l.mutable_bytes();
        double re = draw(), im = draw();
        if (t == PrimitiveType::kC64) {
          reinterpret_cast<float*>(bytes)[2 * i] = static_cast<float>(re);
          reinterpret_cast<float*>(bytes)[2 * i + 1] = static_cast<float>(im);
        } else {
          reinterpret_cast<double*>(bytes)[2 * i] = re;
          reinterpret_cast<double*>(bytes)[2 * i + 1] = im;
        }
      } else if (IsFloat(t)) {
        l.SetFromDouble(i, draw());
      } else {
        int64_t v = integer(random);
        if (IsUnsigned(t) && v < 0) v = -v;
        l.SetFromInt(i, v);
      }
    }
    inputs.push_back(std::move(l));
  }
  return inputs;
}

std::string Difference(const std::string& hlo, const RunOptions& options) {
  auto kernel = TestKernel::Make(hlo, options);
  if (!kernel.ok()) return absl::StrCat("no kernel: ", kernel.status().ToString());
  std::vector<Literal> inputs = (*kernel)->RandomInputs();
  auto expected = Evaluate((*kernel)->module(), inputs);
  if (!expected.ok()) return absl::StrCat("evaluator: ", expected.status().ToString());
  auto got = (*kernel)->Run(inputs);
  if (!got.ok()) return got.status().ToString();
  std::vector<Literal> wanted;
  if (expected->shape().IsTuple()) {
    wanted = expected->elements();
  } else {
    wanted = {*expected};
  }
  for (size_t j = 0; j < wanted.size(); ++j) {
    const double tolerance = Precision(wanted[j].shape().element_type(), options.tolerance);
    for (int64_t i = 0; i < wanted[j].num_elements(); ++i) {
      if (!IsElementClose(wanted[j], (*got)[j], i, tolerance)) {
        std::string at;
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (inputs[k].num_elements() == wanted[j].num_elements())
            absl::StrAppend(&at, " input ", k, " = ", ElementToString(inputs[k], i));
        }
        return absl::StrCat("output ", j, " ", wanted[j].shape().ToString(), " element ", i, ": expected ",
                            ElementToString(wanted[j], i), ", found ", ElementToString((*got)[j], i), at, " [",
                            (*kernel)->plan().note, "]");
      }
    }
  }
  return "";
}

}  // namespace backplane::engine::codegen
