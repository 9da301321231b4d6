// Measures the cost of layers for a host, without Python: the calls that JAX makes for one token of a small transformer
// (one execution with 62 arguments and ten outputs, two small copies, and some eighty calls that only query or destroy
// something), with and without layers, in one process and one thread.
//
//   layers_bench PLUGIN.so [--layers NAMES]... [--setups N] [--rounds N] [--block STEPS] [--idle [--cold]]
//   layers_bench PLUGIN.so --layers NAMES --count STEPS     only the steps, for a tool that counts instructions
//
// The variants are the plugin ("bare", twice: the second shows how much equal variants differ here), a layer that does
// nothing ("dispatch"), and the named stacks. Each has its own client and buffers. A round runs a block of steps of
// each variant, in alternating order. The first steps of a block are not measured, because the caches still contain the
// data of another variant. Where the buffers of a variant were allocated influences its speed as long as they live, so
// everything is set up anew a few times, in another order.
//
// The output has the median over rounds of the ratio to `bare` in the same round, its quartiles, and the cost per call,
// for the wall-clock time of a step and for the processor time of all threads. Processor time is more reliable if other
// processes use the machine. --idle: the program does nothing. --cold: as much other memory is read between steps as
// the work for a token reads; only wall-clock time is measured then.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "api/extensions/ffi.h"
#include "api/extensions/layouts.h"
#include "sdk/host/client.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {
namespace {

constexpr int kBlocks = 4, kWidth = 256, kWide = 1024, kRows = 256, kVocabulary = 512;
constexpr size_t kCaches = 2 * kBlocks;
constexpr size_t kOutputs = 2 + kCaches;

[[noreturn]] void Die(const std::string& why) {
  fprintf(stderr, "layers_bench: %s\n", why.c_str());
  exit(1);
}
void Check(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}
template <typename T>
T Take(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// ---- The program

std::string Type(std::initializer_list<int> dims, const char* element = "f32") {
  return absl::StrCat("tensor<", absl::StrJoin(dims, "x"), dims.size() == 0 ? "" : "x", element, ">");
}

struct Parameter {
  std::string name, type;
  std::vector<int64_t> dims;
  bool integer = false;
};

// The token, the position, the caches, which the execution consumes, and the weights.
std::vector<Parameter> Parameters() {
  std::vector<Parameter> p;
  auto add = [&](const std::string& name, std::initializer_list<int> dims, bool integer = false) {
    p.push_back({name, Type(dims, integer ? "i32" : "f32"), std::vector<int64_t>(dims.begin(), dims.end()), integer});
  };
  add("token", {}, true);
  add("position", {}, true);
  for (size_t i = 0; i < kCaches; ++i) add(absl::StrCat("cache", i), {kRows, kWidth});
  add("embed", {kVocabulary, kWidth});
  add("positions", {kRows, kWidth});
  add("gain", {kWidth});
  add("shift", {kWidth});
  for (int b = 0; b < kBlocks; ++b) {
    for (const char* norm : {"n1", "n2"}) {
      add(absl::StrCat(norm, "g", b), {kWidth});
      add(absl::StrCat(norm, "s", b), {kWidth});
    }
    add(absl::StrCat("qkv", b), {kWidth, 3 * kWidth});
    add(absl::StrCat("qkvb", b), {3 * kWidth});
    add(absl::StrCat("out", b), {kWidth, kWidth});
    add(absl::StrCat("outb", b), {kWidth});
    add(absl::StrCat("up", b), {kWidth, kWide});
    add(absl::StrCat("upb", b), {kWide});
    add(absl::StrCat("down", b), {kWide, kWidth});
    add(absl::StrCat("downb", b), {kWidth});
  }
  return p;
}

class Writer {
 public:
  // Adds an operation and returns the name of its result.
  std::string Add(const std::string& operation) {
    const std::string name = absl::StrCat("%v", count_++);
    absl::StrAppend(&text_, "    ", name, " = ", operation, "\n");
    return name;
  }
  std::string Binary(const char* op, const std::string& a, const std::string& b, const std::string& type) {
    return Add(absl::StrCat("stablehlo.", op, " ", a, ", ", b, " : ", type));
  }
  std::string Norm(const std::string& x, const std::string& gain, const std::string& shift) {
    const std::string v = Type({kWidth});
    return Binary("add", Binary("multiply", x, gain, v), shift, v);
  }
  // x[n] times w[n,m], plus b[m].
  std::string Dense(const std::string& x, const std::string& w, const std::string& b, int n, int m) {
    const std::string y = Add(absl::StrCat("stablehlo.dot_general ", x, ", ", w, ", contracting_dims = [0] x [0] : (",
                                           Type({n}), ", ", Type({n, m}), ") -> ", Type({m})));
    return Binary("add", y, b, Type({m}));
  }
  std::string Row(const std::string& table, const std::string& index, const std::string& zero, int rows) {
    const std::string row =
        Add(absl::StrCat("stablehlo.dynamic_slice ", table, ", ", index, ", ", zero, ", sizes = [1, ", kWidth, "] : (",
                         Type({rows, kWidth}), ", tensor<i32>, tensor<i32>) -> ", Type({1, kWidth})));
    return Add(absl::StrCat("stablehlo.reshape ", row, " : (", Type({1, kWidth}), ") -> ", Type({kWidth})));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
};

std::string ProgramText(bool idle) {
  const std::string vector = Type({kWidth}), cache = Type({kRows, kWidth}), one_row = Type({1, kWidth});
  Writer w;
  std::vector<std::string> caches;
  std::string logits;
  const std::string one = w.Add("stablehlo.constant dense<1> : tensor<i32>");
  const std::string token = w.Binary("add", "%token", one, "tensor<i32>");
  if (idle) {
    logits = w.Add(absl::StrCat("stablehlo.constant dense<0.0> : ", Type({kVocabulary})));
    for (size_t i = 0; i < kCaches; ++i) caches.push_back(absl::StrCat("%cache", i));
  } else {
    const std::string zero = w.Add("stablehlo.constant dense<0> : tensor<i32>");
    std::string x = w.Binary("add", w.Row("%embed", "%token", zero, kVocabulary),
                             w.Row("%positions", "%position", zero, kRows), vector);
    for (int b = 0; b < kBlocks; ++b) {
      auto p = [&](const char* name) { return absl::StrCat("%", name, b); };
      const std::string qkv = w.Dense(w.Norm(x, p("n1g"), p("n1s")), p("qkv"), p("qkvb"), kWidth, 3 * kWidth);
      std::string part[3];
      for (int i = 0; i < 3; ++i) {
        part[i] = w.Add(absl::StrCat("stablehlo.slice ", qkv, " [", i * kWidth, ":", (i + 1) * kWidth, "] : (",
                                     Type({3 * kWidth}), ") -> ", vector));
        if (i == 0) continue;
        const std::string row = w.Add(absl::StrCat("stablehlo.reshape ", part[i], " : (", vector, ") -> ", one_row));
        caches.push_back(
            w.Add(absl::StrCat("stablehlo.dynamic_update_slice %cache", caches.size(), ", ", row, ", %position, ", zero,
                               " : (", cache, ", ", one_row, ", tensor<i32>, tensor<i32>) -> ", cache)));
      }
      const std::string& keys = caches[caches.size() - 2];
      const std::string& values = caches.back();
      const std::string score =
          w.Add(absl::StrCat("stablehlo.dot_general ", keys, ", ", part[0], ", contracting_dims = [1] x [0] : (", cache,
                             ", ", vector, ") -> ", Type({kRows})));
      const std::string weight = w.Add(absl::StrCat("stablehlo.tanh ", score, " : ", Type({kRows})));
      const std::string seen =
          w.Add(absl::StrCat("stablehlo.dot_general ", weight, ", ", values, ", contracting_dims = [0] x [0] : (",
                             Type({kRows}), ", ", cache, ") -> ", vector));
      x = w.Binary("add", x, w.Dense(seen, p("out"), p("outb"), kWidth, kWidth), vector);
      const std::string wide = w.Dense(w.Norm(x, p("n2g"), p("n2s")), p("up"), p("upb"), kWidth, kWide);
      const std::string bent = w.Add(absl::StrCat("stablehlo.tanh ", wide, " : ", Type({kWide})));
      x = w.Binary("add", x, w.Dense(bent, p("down"), p("downb"), kWide, kWidth), vector);
    }
    logits = w.Add(absl::StrCat("stablehlo.dot_general %embed, ", w.Norm(x, "%gain", "%shift"),
                                ", contracting_dims = [1] x [0] : (", Type({kVocabulary, kWidth}), ", ", vector,
                                ") -> ", Type({kVocabulary})));
  }
  std::vector<std::string> arguments, results = {token, logits}, types = {"tensor<i32>", Type({kVocabulary})};
  for (const Parameter& p : Parameters()) {
    std::string taken;
    if (absl::string_view(p.name).substr(0, 5) == "cache") {
      taken = absl::StrCat(" {tf.aliasing_output = ", types.size(), " : i32}");
      types.push_back(p.type);
    }
    arguments.push_back(absl::StrCat("%", p.name, ": ", p.type, taken));
  }
  results.insert(results.end(), caches.begin(), caches.end());
  return absl::StrCat("module @step {\n  func.func public @main(", absl::StrJoin(arguments, ", "), ") -> (",
                      absl::StrJoin(types, ", "), ") {\n", w.text(), "    return ", absl::StrJoin(results, ", "), " : ",
                      absl::StrJoin(types, ", "), "\n  }\n}\n");
}

// ---- A variant

// A layer that wants every call and does nothing, to measure the dispatch.
class Nothing : public Layer {
 public:
  const char* name() const override { return "dispatch"; }
  bool WantsTimes() const override { return false; }
};

class Counter : public Layer {
 public:
  const char* name() const override { return "counter"; }
  void After(Call& call) override { ++count; }
  int64_t count = 0;
};

std::vector<std::unique_ptr<Layer>> LayersOf(const std::string& names) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (absl::string_view name : absl::StrSplit(names, ',')) {
    if (name == "dispatch") {
      layers.push_back(std::make_unique<Nothing>());
    } else {
      layers.push_back(Take(MakeLayerByName(name, Options(name, {}))));
    }
  }
  return layers;
}

class Variant {
 public:
  Variant(const host::Plugin& plugin, std::vector<std::unique_ptr<Layer>> layers, bool idle) {
    const PJRT_Api* table = &plugin.api();
    if (!layers.empty()) {
      stack_ = Take(Stack::Create(table, plugin.name(), std::move(layers)));
      table = stack_->api();
    }
    plugin_ = Take(host::Plugin::FromApi(table, plugin.name()));
    api_ = &plugin_->api();
    ffi_ = plugin_->Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI, PJRT_FFI_Extension_STRUCT_SIZE);
    layouts_ =
        plugin_->Extension<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts, PJRT_Layouts_Extension_STRUCT_SIZE);
    client_ = Take(host::Client::Create(*plugin_));
    device_ = Take(client_->AddressableDevices())[0].raw();
    loaded_ = Take(client_->Compile({"mlir", ProgramText(idle)}));
    executable_ = Take(loaded_.GetExecutable());
    if (Take(executable_.NumOutputs()) != kOutputs) Die("the program has another number of outputs");
    for (const Parameter& p : Parameters()) {
      size_t count = 1;
      for (int64_t d : p.dims) count *= static_cast<size_t>(d);
      host::HostArray array;
      if (p.integer) {
        array = host::HostArray::Of<int32_t>(p.dims, std::vector<int32_t>(count, 0));
      } else {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i)
          values[i] = static_cast<float>((i * 7 + p.name.size()) % 13) * 0.004f - 0.02f;
        array = host::HostArray::Of<float>(p.dims, values);
      }
      arguments_.push_back(Take(client_->ToDevice(array)).release());
    }
  }
  Variant(const Variant&) = delete;
  ~Variant() {
    for (PJRT_Buffer* b : arguments_) Destroy(b);
    Destroy(logits_);
    executable_ = {};
    loaded_ = {};
    client_.reset();
  }

  // Runs the steps for one token and returns the seconds. The order of calls is that of jaxlib's client.
  double Step() {
    const auto start = std::chrono::steady_clock::now();
    BP_PJRT_ARGS(*plugin_, context, PJRT_ExecuteContext_Create);
    Ok(api_->PJRT_ExecuteContext_Create(&context));
    if (ffi_ != nullptr) {
      PJRT_FFI_UserData_Add_Args add{};
      add.struct_size = PJRT_FFI_UserData_Add_Args_STRUCT_SIZE;
      add.context = context.context;
      add.user_data = {kUserType, this};
      Ok(ffi_->user_data_add(&add));
    }
    position_ = (position_ + 1) % kRows;
    PJRT_Buffer*& position = arguments_[1];
    Destroy(position);
    position = FromHost(&position_);
    for (int i = 0; i < 2; ++i) {
      BP_PJRT_ARGS(*plugin_, replicas, PJRT_Executable_NumReplicas);
      replicas.executable = executable_.raw();
      Ok(api_->PJRT_Executable_NumReplicas(&replicas));
      BP_PJRT_ARGS(*plugin_, partitions, PJRT_Executable_NumPartitions);
      partitions.executable = executable_.raw();
      Ok(api_->PJRT_Executable_NumPartitions(&partitions));
    }
    PJRT_Buffer* outputs[kOutputs] = {};
    Execute(context.context, outputs);
    BP_PJRT_ARGS(*plugin_, end, PJRT_ExecuteContext_Destroy);
    end.context = context.context;
    Ok(api_->PJRT_ExecuteContext_Destroy(&end));
    for (PJRT_Buffer* b : outputs) Where(b);
    for (size_t i = 0; i < kCaches; ++i) Destroy(std::exchange(arguments_[2 + i], outputs[2 + i]));
    Destroy(std::exchange(arguments_[0], outputs[0]));
    Destroy(std::exchange(logits_, outputs[1]));
    Read(arguments_[0]);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  int32_t token() const { return token_; }

 private:
  static constexpr int64_t kUserType = 1;

  void Ok(PJRT_Error* error) {
    if (error != nullptr) Check(plugin_->TakeError(error));
  }
  void Destroy(PJRT_Buffer* buffer) {
    if (buffer == nullptr) return;
    BP_PJRT_ARGS(*plugin_, a, PJRT_Buffer_Destroy);
    a.buffer = buffer;
    Ok(api_->PJRT_Buffer_Destroy(&a));
  }
  // Registers a callback that does nothing, as a host does.
  void RegisterCallback(PJRT_Event* event) {
    BP_PJRT_ARGS(*plugin_, on, PJRT_Event_OnReady);
    on.event = event;
    on.user_arg = this;
    on.callback = [](PJRT_Error* error, void* variant) { static_cast<Variant*>(variant)->Ok(error); };
    Ok(api_->PJRT_Event_OnReady(&on));
    BP_PJRT_ARGS(*plugin_, destroy, PJRT_Event_Destroy);
    destroy.event = event;
    Ok(api_->PJRT_Event_Destroy(&destroy));
  }
  void Where(PJRT_Buffer* buffer) {
    BP_PJRT_ARGS(*plugin_, device, PJRT_Buffer_Device);
    device.buffer = buffer;
    Ok(api_->PJRT_Buffer_Device(&device));
    BP_PJRT_ARGS(*plugin_, memory, PJRT_Buffer_Memory);
    memory.buffer = buffer;
    Ok(api_->PJRT_Buffer_Memory(&memory));
    BP_PJRT_ARGS(*plugin_, kind, PJRT_Memory_Kind);
    kind.memory = memory.memory;
    Ok(api_->PJRT_Memory_Kind(&kind));
  }
  PJRT_Buffer* FromHost(const int32_t* value) {
    BP_PJRT_ARGS(*plugin_, a, PJRT_Client_BufferFromHostBuffer);
    a.client = client_->raw();
    a.data = value;
    a.type = PJRT_Buffer_Type_S32;
    a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    a.device = device_;
    Ok(api_->PJRT_Client_BufferFromHostBuffer(&a));
    RegisterCallback(a.done_with_host_buffer);
    Where(a.buffer);
    return a.buffer;
  }
  void Execute(PJRT_ExecuteContext* context, PJRT_Buffer** outputs) {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.context = context;
    PJRT_Buffer* const* row = arguments_.data();
    PJRT_Event* done = nullptr;
    BP_PJRT_ARGS(*plugin_, a, PJRT_LoadedExecutable_Execute);
    a.executable = loaded_.raw();
    a.options = &options;
    a.argument_lists = &row;
    a.num_devices = 1;
    a.num_args = arguments_.size();
    a.output_lists = &outputs;
    a.device_complete_events = &done;
    Ok(api_->PJRT_LoadedExecutable_Execute(&a));
    RegisterCallback(done);
  }
  bool IsDeleted(PJRT_Buffer* buffer) {
    BP_PJRT_ARGS(*plugin_, a, PJRT_Buffer_IsDeleted);
    a.buffer = buffer;
    Ok(api_->PJRT_Buffer_IsDeleted(&a));
    return a.is_deleted;
  }
  void Shape(PJRT_Buffer* buffer) {
    BP_PJRT_ARGS(*plugin_, type, PJRT_Buffer_ElementType);
    type.buffer = buffer;
    Ok(api_->PJRT_Buffer_ElementType(&type));
    BP_PJRT_ARGS(*plugin_, dims, PJRT_Buffer_Dimensions);
    dims.buffer = buffer;
    Ok(api_->PJRT_Buffer_Dimensions(&dims));
  }
  // Reads the buffer in place, as numpy does.
  void Read(PJRT_Buffer* buffer) {
    if (IsDeleted(buffer)) Die("the token is deleted");
    Shape(buffer);
    Where(buffer);
    if (IsDeleted(buffer)) Die("the token is deleted");
    if (layouts_ != nullptr) {
      PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args of{};
      of.struct_size = PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args_STRUCT_SIZE;
      of.buffer = buffer;
      Ok(layouts_->PJRT_Layouts_PJRT_Buffer_MemoryLayout(&of));
      PJRT_Layouts_MemoryLayout_Serialize_Args text{};
      text.struct_size = PJRT_Layouts_MemoryLayout_Serialize_Args_STRUCT_SIZE;
      text.layout = of.layout;
      Ok(layouts_->PJRT_Layouts_MemoryLayout_Serialize(&text));
      text.serialized_layout_deleter(text.serialized_layout);
      PJRT_Layouts_MemoryLayout_Destroy_Args destroy{};
      destroy.struct_size = PJRT_Layouts_MemoryLayout_Destroy_Args_STRUCT_SIZE;
      destroy.layout = of.layout;
      Ok(layouts_->PJRT_Layouts_MemoryLayout_Destroy(&destroy));
    }
    BP_PJRT_ARGS(*plugin_, cpu, PJRT_Buffer_IsOnCpu);
    cpu.buffer = buffer;
    Ok(api_->PJRT_Buffer_IsOnCpu(&cpu));
    Shape(buffer);
    BP_PJRT_ARGS(*plugin_, dynamic, PJRT_Buffer_DynamicDimensionIndices);
    dynamic.buffer = buffer;
    Ok(api_->PJRT_Buffer_DynamicDimensionIndices(&dynamic));
    BP_PJRT_ARGS(*plugin_, hold, PJRT_Buffer_IncreaseExternalReferenceCount);
    hold.buffer = buffer;
    Ok(api_->PJRT_Buffer_IncreaseExternalReferenceCount(&hold));
    BP_PJRT_ARGS(*plugin_, data, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
    data.buffer = buffer;
    Ok(api_->PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&data));
    BP_PJRT_ARGS(*plugin_, ready, PJRT_Buffer_ReadyEvent);
    ready.buffer = buffer;
    Ok(api_->PJRT_Buffer_ReadyEvent(&ready));
    BP_PJRT_ARGS(*plugin_, asked, PJRT_Event_IsReady);
    asked.event = ready.event;
    Ok(api_->PJRT_Event_IsReady(&asked));
    if (!asked.is_ready) {
      BP_PJRT_ARGS(*plugin_, wait, PJRT_Event_Await);
      wait.event = ready.event;
      Ok(api_->PJRT_Event_Await(&wait));
    }
    BP_PJRT_ARGS(*plugin_, done, PJRT_Event_Destroy);
    done.event = ready.event;
    Ok(api_->PJRT_Event_Destroy(&done));
    if (cpu.is_on_cpu) memcpy(&token_, data.device_memory_ptr, sizeof(token_));
    BP_PJRT_ARGS(*plugin_, let, PJRT_Buffer_DecreaseExternalReferenceCount);
    let.buffer = buffer;
    Ok(api_->PJRT_Buffer_DecreaseExternalReferenceCount(&let));
  }

  std::unique_ptr<Stack> stack_;  // outlives the objects that are called through it
  const host::Plugin* plugin_ = nullptr;
  const PJRT_Api* api_ = nullptr;
  const PJRT_FFI_Extension* ffi_ = nullptr;
  const PJRT_Layouts_Extension* layouts_ = nullptr;
  std::optional<host::Client> client_;
  PJRT_Device* device_ = nullptr;
  host::LoadedExecutable loaded_;
  host::Executable executable_;
  std::vector<PJRT_Buffer*> arguments_;
  PJRT_Buffer* logits_ = nullptr;
  int32_t position_ = 0, token_ = 0;
};

// ---- Measuring

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// One value for each round.
struct Series {
  std::vector<double> seconds;
};

struct Setting {
  std::string plugin;
  std::vector<std::string> layers;
  int setups = 3, rounds = 30, block = 40, count = 0;
  bool idle = false, cold = false;
};

// Fills the caches with other data, as the work for a token does.
void FillCaches() {
  constexpr size_t kBytes = size_t{12} << 20, kLine = 64;
  static std::vector<char>* const other = new std::vector<char>(kBytes);
  for (size_t i = 0; i < kBytes; i += kLine) ++(*other)[i];
}

constexpr int kWarm = 600;        // steps; more than the calls for which layers do additional work
constexpr int kSkippedSteps = 8;  // steps at the beginning of a block that are not measured

void Measure(const Setting& s, const host::Plugin& plugin) {
  std::vector<std::string> names = {"bare", "bare again", "dispatch"};
  for (const std::string& layers : s.layers) {
    if (std::find(names.begin(), names.end(), layers) != names.end()) Die(absl::StrCat(layers, " is there already"));
    names.push_back(layers);
  }
  int64_t calls = 0;
  {
    auto counter = std::make_unique<Counter>();
    Counter* counts = counter.get();
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::move(counter));
    Variant variant(plugin, std::move(layers), s.idle);
    for (int i = 0; i < 3; ++i) variant.Step();
    const int64_t before = counts->count;
    variant.Step();
    calls = counts->count - before;
  }
  std::map<std::string, Series> wall, processor;
  for (int setup = 0; setup < s.setups; ++setup) {
    std::vector<std::string> order = names;
    std::rotate(order.begin(), order.begin() + setup % static_cast<int>(order.size()), order.end());
    std::map<std::string, std::unique_ptr<Variant>> variants;
    for (const std::string& name : order) {
      const bool bare = name == "bare" || name == "bare again";
      variants[name] =
          std::make_unique<Variant>(plugin, bare ? std::vector<std::unique_ptr<Layer>>() : LayersOf(name), s.idle);
      for (int i = 0; i < kWarm; ++i) variants[name]->Step();
    }
    for (int round = 0; round < s.rounds; ++round) {
      for (const std::string& name : order) {
        std::vector<double> steps;
        for (int i = 0; i < kSkippedSteps; ++i) variants[name]->Step();
        const double before = ProcessorSeconds();
        for (int i = 0; i < s.block; ++i) {
          if (s.cold) FillCaches();
          steps.push_back(variants[name]->Step());
        }
        if (!s.cold) processor[name].seconds.push_back((ProcessorSeconds() - before) / s.block);
        wall[name].seconds.push_back(Quantile(std::move(steps), 0.5));
      }
      std::reverse(order.begin(), order.end());
    }
    for (const auto& [name, variant] : variants) {
      if (variant->token() != variants["bare"]->token()) Die(absl::StrCat(name, " computed another token"));
    }
  }
  printf("%lld calls a step, %zu arguments, %d rounds\n", static_cast<long long>(calls), Parameters().size(),
         s.setups * s.rounds);
  for (const std::string& name : names) {
    printf("%-16s", name.c_str());
    for (auto [what, all] : {std::pair("wall", &wall), std::pair("processor", &processor)}) {
      const Series& bare = (*all)["bare"];
      const Series& own = (*all)[name];
      if (own.seconds.empty()) continue;
      std::vector<double> ratios;
      for (size_t i = 0; i < own.seconds.size(); ++i) ratios.push_back(own.seconds[i] / bare.seconds[i]);
      const double ratio = Quantile(ratios, 0.5);
      printf("   %s %7.1f us x%.3f [%.3f to %.3f] %+5.0f ns a call", what, Quantile(own.seconds, 0.5) * 1e6, ratio,
             Quantile(ratios, 0.25), Quantile(ratios, 0.75),
             (ratio - 1) * Quantile(bare.seconds, 0.5) * 1e9 / static_cast<double>(calls));
    }
    printf("\n");
  }
}

Setting Parse(int argc, char** argv) {
  Setting s;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    auto value = [&]() -> std::string {
      if (++i == argc) Die(absl::StrCat(word, " needs a value"));
      return argv[i];
    };
    auto number = [&] {
      int n = 0;
      const std::string text = value();
      if (!absl::SimpleAtoi(text, &n) || n < 1) Die(absl::StrCat(word, ": ", text, " is not a number above 0"));
      return n;
    };
    if (word == "--layers") {
      s.layers.push_back(value());
    } else if (word == "--setups") {
      s.setups = number();
    } else if (word == "--rounds") {
      s.rounds = number();
    } else if (word == "--block") {
      s.block = number();
    } else if (word == "--count") {
      s.count = number();
    } else if (word == "--idle") {
      s.idle = true;
    } else if (word == "--cold") {
      s.cold = true;
    } else if (s.plugin.empty() && word[0] != '-') {
      s.plugin = word;
    } else {
      Die(absl::StrCat("what is ", word, "?"));
    }
  }
  if (s.plugin.empty())
    Die("usage: layers_bench PLUGIN.so [--layers NAMES]... [--setups N] [--rounds N] [--block STEPS]");
  return s;
}

int Main(int argc, char** argv) {
  // The layers record their results but do not write them.
  for (const char* name : {"BACKPLANE_TRACE_FILE", "BACKPLANE_TRACE_HTML"}) setenv(name, "none", 1);
  Setting s = Parse(argc, argv);
  const host::Plugin& plugin = *Take(host::Plugin::Load(s.plugin));
  if (s.count > 0) {
    if (s.layers.size() > 1) Die("--count takes one stack");
    Variant variant(plugin, s.layers.empty() ? std::vector<std::unique_ptr<Layer>>() : LayersOf(s.layers[0]), s.idle);
    for (int i = 0; i < s.count; ++i) variant.Step();
    printf("%d steps, token %d\n", s.count, variant.token());
    return 0;
  }
  if (s.layers.empty()) s.layers = {"trace", "validate"};
  Measure(s, plugin);
  return 0;
}

}  // namespace
}  // namespace backplane::layers

int main(int argc, char** argv) { return backplane::layers::Main(argc, argv); }
