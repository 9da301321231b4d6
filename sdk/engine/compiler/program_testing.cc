#include "sdk/engine/compiler/program_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/codegen/close_testing.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {
namespace {

constexpr size_t kGuard = 192;  // bytes watched on both sides of an array

// An array's memory with watched bytes around it.
class Block {
 public:
  explicit Block(size_t bytes, size_t shift = 0)
      : size_(bytes),
        start_(kGuard + shift),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, Total())), &std::free) {
    std::memset(memory_.get(), 0xcd, Total());
  }
  void* data() const { return memory_.get() + start_; }
  size_t size() const { return size_; }
  // Nothing was written before the array or more than `slack` bytes after it.
  bool IsIntact(size_t slack) const {
    for (size_t k = 0; k < Total(); ++k) {
      if ((k < start_ || k >= start_ + size_ + slack) && memory_.get()[k] != 0xcd) return false;
    }
    return true;
  }

 private:
  size_t Total() const { return (start_ + size_ + 63) / 64 * 64 + kGuard; }
  size_t size_, start_;
  std::unique_ptr<unsigned char, decltype(&std::free)> memory_;
};

// Memory whose end is the end of what may be read: the host's memory may end there, and a program that looks further
// dies here as well.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t readable = (bytes + page - 1) / page * page;
    mapped_ = readable + page;
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    if (mprotect(static_cast<char*>(memory_) + readable, page, PROT_NONE) != 0) std::abort();
    data_ = static_cast<char*>(memory_) + readable - bytes;
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(memory_, mapped_); }
  void* data() const { return data_; }

 private:
  size_t mapped_ = 0;
  void *memory_ = nullptr, *data_ = nullptr;
};

std::vector<Literal> Leaves(const Literal& value) {
  if (!value.shape().IsTuple()) return {value};
  std::vector<Literal> leaves;
  for (const Literal& e : value.elements()) {
    for (Literal& l : Leaves(e)) leaves.push_back(std::move(l));
  }
  return leaves;
}

// Element k in row-major order stands at the returned element of memory.
std::vector<int64_t> ElementOffsets(const Shape& shape) {
  std::vector<int64_t> offsets(static_cast<size_t>(shape.num_elements()));
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t step = 1;
  for (int64_t k = 0; k < shape.rank(); ++k) {
    const int64_t d = shape.has_layout() ? shape.layout().minor_to_major[static_cast<size_t>(k)] : shape.rank() - 1 - k;
    strides[static_cast<size_t>(d)] = step;
    step *= shape.dimensions(d);
  }
  std::vector<int64_t> index(strides.size(), 0);
  for (int64_t& place : offsets) {
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * strides[d];
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape.dimensions(static_cast<int64_t>(d))) break;
      index[d] = 0;
    }
  }
  return offsets;
}

// Row-major bytes to the order of `shape`, or back.
void Reorder(const Shape& shape, const void* from, void* to, bool to_row_major) {
  const size_t width = static_cast<size_t>(ByteWidth(shape.element_type()));
  const std::vector<int64_t> offsets = ElementOffsets(shape);
  for (size_t k = 0; k < offsets.size(); ++k) {
    const size_t a = k * width, b = static_cast<size_t>(offsets[k]) * width;
    std::memcpy(static_cast<char*>(to) + (to_row_major ? a : b),
                static_cast<const char*>(from) + (to_row_major ? b : a), width);
  }
}

Literal Random(const Shape& shape, const ProgramRunOptions& options, std::mt19937& random) {
  std::uniform_real_distribution<double> real(options.low, options.high);
  std::uniform_int_distribution<int64_t> integer(options.int_low, options.int_high);
  Literal l(shape.WithoutLayout());
  const PrimitiveType t = shape.element_type();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {kInf, -kInf, std::nan(""), 0.0, -0.0, 1};
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (t == PrimitiveType::kPred) {
      l.SetFromInt(i, integer(random) & 1);
    } else if (t == PrimitiveType::kC64) {
      reinterpret_cast<std::complex<float>*>(l.mutable_bytes())[i] = {static_cast<float>(real(random)),
                                                                      static_cast<float>(real(random))};
    } else if (t == PrimitiveType::kC128) {
      reinterpret_cast<std::complex<double>*>(l.mutable_bytes())[i] = {real(random), real(random)};
    } else if (IsFloat(t)) {
      l.SetFromDouble(i, options.specials && random() % 8 == 0 ? specials[random() % 6] : real(random));
    } else {
      const int64_t v = integer(random);
      l.SetFromInt(i, IsUnsigned(t) && v < 0 ? -v : v);
    }
  }
  return l;
}

double Precision(PrimitiveType t, double f32) {
  switch (t) {
    case PrimitiveType::kF64:
    case PrimitiveType::kC128:
      return f32 * 1e-7;
    case PrimitiveType::kF32:
    case PrimitiveType::kC64:
      return f32;
    case PrimitiveType::kBF16:
      return std::max(f32, 1.0 / 60);
    case PrimitiveType::kF16:
      return std::max(f32, 1.0 / 500);
    default:
      return std::max(f32, 0.3);
  }
}

std::string Compare(const Literal& wanted, const Literal& got, double tolerance) {
  const double allowed = Precision(wanted.shape().element_type(), tolerance);
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    if (!IsElementClose(wanted, got, i, allowed)) {
      return absl::StrCat(wanted.shape().ToString(), " element ", i, ": expected ", ElementToString(wanted, i),
                          ", found ", ElementToString(got, i));
    }
  }
  return "";
}

std::vector<Shape> LeafShapes(const Shape& shape) {
  std::vector<Shape> leaves;
  ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) { leaves.push_back(s); });
  return leaves;
}

struct Run {
  const Program& program;
  const std::vector<Literal>& arguments;  // leaves
  const std::vector<Literal>& wanted;     // leaves
  double tolerance;

  // One run on fresh memory; with `at_end`, arguments that the program leaves alone lie at the end of readable memory.
  std::string operator()(ThreadPool* pool, MemoryPool* memory, bool at_end = false) const {
    const Module& module = program.module();
    std::vector<Shape> parameter_shapes;
    for (const Instruction* p : module.entry()->parameters()) {
      for (Shape& s : LeafShapes(p->shape())) parameter_shapes.push_back(std::move(s));
    }
    const std::vector<Shape> result_shapes = LeafShapes(module.entry()->root()->shape());
    const std::vector<int32_t>& alias = program.assignment().output_alias;
    std::vector<Block> in, out;
    std::vector<void*> in_addresses, out_addresses;
    std::vector<bool> overwritten(arguments.size(), false);
    for (size_t k = 0; k < arguments.size(); ++k) {
      const bool array = parameter_shapes[k].IsArray();
      // A view may lie at any address of an element.
      const size_t shift = array ? static_cast<size_t>(ByteWidth(ComplexPart(parameter_shapes[k].element_type()))) : 0;
      in.emplace_back(array ? static_cast<size_t>(arguments[k].byte_size()) : 0, shift);
      if (array) Reorder(parameter_shapes[k], arguments[k].bytes(), in.back().data(), false);
      in_addresses.push_back(array ? in.back().data() : nullptr);
    }
    for (size_t k = 0; k < wanted.size(); ++k) {
      out.emplace_back(result_shapes[k].IsArray() ? static_cast<size_t>(wanted[k].byte_size()) : 0);
      if (alias[k] >= 0) overwritten[static_cast<size_t>(alias[k])] = true;
      out_addresses.push_back(alias[k] >= 0 ? in_addresses[static_cast<size_t>(alias[k])] : out.back().data());
    }
    // Temporary memory is full of what others left there.
    if (program.temporary_bytes() > 0) {
      void* block = memory->Allocate(static_cast<size_t>(program.temporary_bytes()));
      std::memset(block, 0xcd, static_cast<size_t>(program.temporary_bytes()));
      memory->Free(block);
    }
    std::vector<std::unique_ptr<GuardedBuffer>> ends;
    for (size_t k = 0; at_end && k < arguments.size(); ++k) {
      if (!parameter_shapes[k].IsArray() || overwritten[k]) continue;
      ends.push_back(std::make_unique<GuardedBuffer>(in[k].size()));
      in_addresses[k] = std::memcpy(ends.back()->data(), in[k].data(), in[k].size());
    }
    ExecutionContext context;
    if (absl::Status s = program.Run(in_addresses, out_addresses, pool, memory, context); !s.ok())
      return absl::StrCat("run: ", s.ToString());
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (!result_shapes[k].IsArray()) continue;
      Literal got(wanted[k].shape());
      Reorder(result_shapes[k], out_addresses[k], got.mutable_bytes(), true);
      if (std::string d = Compare(wanted[k], got, tolerance); !d.empty()) return absl::StrCat("output ", k, " ", d);
      if (alias[k] < 0 && !out[k].IsIntact(MemoryPool::kTailPadding))
        return absl::StrCat("output ", k, ": the program wrote around it");
    }
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (!parameter_shapes[k].IsArray()) continue;
      if (!in[k].IsIntact(0)) return absl::StrCat("argument ", k, ": the program wrote around it");
      if (overwritten[k]) continue;
      std::vector<char> before(in[k].size());
      Reorder(parameter_shapes[k], arguments[k].bytes(), before.data(), false);
      if (!before.empty() && std::memcmp(before.data(), in[k].data(), before.size()) != 0)
        return absl::StrCat("argument ", k, ": the program changed it");
    }
    return "";
  }
};

absl::StatusOr<std::unique_ptr<Program>> BuildProgram(const Module& source, ThreadPool* pool,
                                                      std::vector<std::string>* log) {
  std::unique_ptr<Module> module = source.Clone();
  RETURN_IF_ERROR(RunEnginePipeline(module.get(), log));
  ProgramOptions options;
  options.num_threads = pool->num_threads();
  return Program::Build(std::move(module), options, log);
}

ThreadPool::Options Threads(int n) {
  ThreadPool::Options options;
  options.num_threads = n;
  options.spin_microseconds = 0;
  return options;
}

}  // namespace

std::string ProgramDifference(const std::string& hlo, const ProgramRunOptions& options) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(hlo);
  if (!module.ok()) return absl::StrCat("parse: ", module.status().ToString());
  return ProgramDifference(**module, options);
}

std::string ProgramDifference(const Module& module, const ProgramRunOptions& options) {
  static ThreadPool* const pool = new ThreadPool(Threads(3));
  std::vector<std::string> log;
  absl::StatusOr<std::unique_ptr<Program>> program = BuildProgram(module, pool, &log);
  if (!program.ok()) return absl::StrCat("compile: ", program.status().ToString());
  if (options.log != nullptr) *options.log = log;
  std::mt19937 random(options.seed);
  std::vector<Literal> arguments = options.arguments;
  for (const Instruction* p : module.entry()->parameters()) {
    if (static_cast<size_t>(p->parameter_number()) < arguments.size()) continue;
    arguments.push_back(Random(p->shape(), options, random));
  }
  absl::StatusOr<Literal> value = Evaluate(module, arguments);
  if (!value.ok()) return absl::StrCat("evaluator: ", value.status().ToString());
  const std::vector<Literal> wanted = Leaves(*value);
  std::vector<Literal> leaves;
  for (const Literal& a : arguments) {
    for (Literal& l : Leaves(a)) leaves.push_back(std::move(l));
  }
  auto explain = [&](const std::string& what, const std::string& difference, const Program& p) {
    std::string text = absl::StrCat(what, ": ", difference, "\n", p.module().ToString(), p.assignment().ToString());
    for (const std::string& line : log) absl::StrAppend(&text, line, "\n");
    return text;
  };
  MemoryPool memory;
  const Run run{**program, leaves, wanted, options.tolerance};
  for (ThreadPool* p : {static_cast<ThreadPool*>(nullptr), pool}) {
    for (int run_index = 0; run_index < 2; ++run_index) {
      if (std::string d = run(p, &memory, run_index == 1); !d.empty())
        return explain(p == nullptr ? "one thread" : "several threads", d, **program);
    }
  }
  if (!options.stored) return "";
  absl::StatusOr<std::shared_ptr<Executable>> executable =
      EngineExecutable::Create(*std::move(program), CompileOptions(), {}, "fingerprint", {});
  if (!executable.ok()) return absl::StrCat("executable: ", executable.status().ToString());
  absl::StatusOr<std::string> bytes = (*executable)->Serialize();
  if (!bytes.ok()) return absl::StrCat("serialize: ", bytes.status().ToString());
  absl::StatusOr<std::shared_ptr<Executable>> back = DeserializeEngineExecutable(*bytes, nullptr);
  if (!back.ok()) return absl::StrCat("deserialize: ", back.status().ToString());
  const Program& stored = static_cast<const EngineExecutable&>(**back).program();
  const Run again{stored, leaves, wanted, options.tolerance};
  if (std::string d = again(nullptr, &memory); !d.empty()) return explain("stored", d, stored);
  return "";
}

std::vector<std::string> GetCompileLog(const std::string& hlo, std::string* error) {
  ThreadPool pool(Threads(1));
  std::vector<std::string> log;
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(hlo);
  absl::StatusOr<std::unique_ptr<Program>> program =
      module.ok() ? BuildProgram(**module, &pool, &log) : module.status();
  *error = program.ok() ? "" : program.status().ToString();
  return program.ok() ? log : std::vector<std::string>();
}

}  // namespace backplane::engine
