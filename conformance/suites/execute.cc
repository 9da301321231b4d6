// Execution: arguments, results, donation, misuse, several devices.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

const std::vector<float> kX = {1, 2, 3, 4}, kY = {10, 20, 30, 40}, kSum = {11, 22, 33, 44};

PJRT_Buffer* X(Kit& k) { return Put<float>(k, {4}, kX); }
PJRT_Buffer* Y(Kit& k) { return Put<float>(k, {4}, kY); }

void Add(Kit& k) { k.Require(RunF32(k, Compile(k, kAdd), {kX, kY}) == kSum, "1+10, 2+20, 3+30, 4+40 is wrong"); }

void Matmul(Kit& k) {
  std::vector<float> x(64), y(64), want(64);
  for (size_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i % 7) - 3, y[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 8; ++j)
      for (size_t n = 0; n < 8; ++n) want[i * 8 + j] += x[i * 8 + n] * y[n * 8 + j];
  PJRT_Buffer* out = Execute(k, Compile(k, kMatmul), {Put<float>(k, {8, 8}, x), Put<float>(k, {8, 8}, y)})[0];
  k.Require(GetAs<float>(k, out) == want, "a product of small whole numbers is not exact");
}

void SumRows(Kit& k) {
  PJRT_Buffer* out = Execute(k, Compile(k, kSumRows), {Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6})})[0];
  k.Require(GetAs<float>(k, out) == std::vector<float>({6, 15}), "the sums of rows are wrong");
}

void Loop(Kit& k) {
  PJRT_Buffer* out = Execute(k, Compile(k, kCount), {Put<int32_t>(k, {}, {1000})})[0];
  k.Require(GetAs<int32_t>(k, out) == std::vector<int32_t>({CountResult(1000)}), "a loop of 1000 steps gives ",
            GetAs<int32_t>(k, out)[0], ", expected ", CountResult(1000));
}

void NoArguments(Kit& k) {
  const auto outputs = Execute(k, Compile(k, kConstant), {});
  k.Require(outputs.size() == 1 && GetAs<float>(k, outputs[0]) == std::vector<float>({1, 2, 3}), "a constant is wrong");
}

void NoOutputs(Kit& k) {
  PJRT_LoadedExecutable* nothing = Compile(k, "module @m { func.func public @main(%x: tensor<4xf32>) { return } }");
  Launch launch;
  launch.executable = nothing;
  launch.arguments = {{X(k)}};
  launch.want_events = true;
  const Err e = TryExecute(k, &launch);
  k.Require(e.ok(), "a program without outputs: ", FormatError(e));
  k.Require(launch.outputs[0].empty(), "a program without outputs has ", launch.outputs[0].size());
  Await(k, launch.events[0], "the event of a program without outputs");
}

void OutputOrder(Kit& k) {
  const auto outputs = Execute(k, Compile(k, kTwoOutputs), {X(k), Put<int32_t>(k, {2}, {5, 6})});
  k.Require(outputs.size() == 2, "two outputs are ", outputs.size());
  k.Require(FormatShape(k, outputs[0]) == "s32[2]" && FormatShape(k, outputs[1]) == "f32[4]",
            "the outputs s32[2], f32[4] are ", FormatShape(k, outputs[0]), ", ", FormatShape(k, outputs[1]));
  k.Require(GetAs<int32_t>(k, outputs[0]) == std::vector<int32_t>({10, 12}), "the first output is wrong");
  k.Require(GetAs<float>(k, outputs[1]) == std::vector<float>({1, 4, 9, 16}), "the second output is wrong");
}

void OutputType(Kit& k) {
  for (const auto& [mlir, type] :
       std::vector<std::pair<const char*, PJRT_Buffer_Type>>{{"i8", PJRT_Buffer_Type_S8},
                                                             {"ui8", PJRT_Buffer_Type_U8},
                                                             {"i32", PJRT_Buffer_Type_S32},
                                                             {"ui32", PJRT_Buffer_Type_U32},
                                                             {"i64", PJRT_Buffer_Type_S64},
                                                             {"f16", PJRT_Buffer_Type_F16},
                                                             {"bf16", PJRT_Buffer_Type_BF16},
                                                             {"f64", PJRT_Buffer_Type_F64}}) {
    PJRT_LoadedExecutable* add = Compile(k, MakeAddProgram(mlir));
    const std::string zeros(static_cast<size_t>(4 * host::HostBytesPerElement(type)), 0);
    PJRT_Buffer* x = Put(k, type, {4}, zeros.data());
    PJRT_Buffer* out = Execute(k, add, {x, x})[0];
    k.Require(GetType(k, out) == type, "a sum of ", mlir, " is said to be ", host::ElementTypeName(GetType(k, out)),
              ", expected ", host::ElementTypeName(type));
    k.Require(Get(k, out) == zeros, "0 + 0 of ", mlir, " is not 0");
  }
}

void ZeroSize(Kit& k) {
  float nothing = 0;
  PJRT_LoadedExecutable* add = Compile(k, MakeAddProgram("f32", "2x0x"));
  PJRT_Buffer* x = Put(k, PJRT_Buffer_Type_F32, {2, 0}, &nothing);
  PJRT_Buffer* out = Execute(k, add, {x, x})[0];
  k.Require(FormatShape(k, out) == "f32[2,0]", "the result is ", FormatShape(k, out));
  k.Require(Get(k, out).empty(), "the result has contents");
}

void Scalars(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, MakeAddProgram("f32", ""));
  PJRT_Buffer* x = Put<float>(k, {}, {2.5f});
  k.Require(GetAs<float>(k, Execute(k, add, {x, x})[0]) == std::vector<float>({5}), "2.5 + 2.5 is not 5");
}

void Pred(Kit& k) {
  PJRT_LoadedExecutable* both =
      Compile(k, absl::StrReplaceAll(MakeAddProgram("i1"), {{"stablehlo.add", "stablehlo.and"}}));
  PJRT_Buffer* x = Put<uint8_t>(k, {4}, {0, 0, 0, 0});
  Destroy(k, x);
  const uint8_t a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1};
  PJRT_Buffer* out =
      Execute(k, both, {Put(k, PJRT_Buffer_Type_PRED, {4}, a), Put(k, PJRT_Buffer_Type_PRED, {4}, b)})[0];
  k.Require(GetType(k, out) == PJRT_Buffer_Type_PRED, "a truth value is said to be ",
            host::ElementTypeName(GetType(k, out)));
  k.Require(Get(k, out) == std::string("\0\0\0\1", 4), "and of truth values is wrong, or they are not 0 and 1");
}

// The output equals the argument but must be a separate buffer.
void IdentityIsItsOwn(Kit& k) {
  PJRT_Buffer* x = X(k);
  PJRT_Buffer* out = Execute(k, Compile(k, PrintIdentityProgram("4xf32")), {x})[0];
  k.Require(out != x, "the output is the argument's own object");
  Delete(k, x);
  k.Require(!IsDeleted(k, out), "deleting an argument deletes the output that equals it");
  k.Require(GetAs<float>(k, out) == kX, "the output that equals an argument is gone with it");
}

void ArgumentTwice(Kit& k) {
  PJRT_Buffer* x = X(k);
  k.Require(GetAs<float>(k, Execute(k, Compile(k, kAdd), {x, x})[0]) == std::vector<float>({2, 4, 6, 8}),
            "x + x is wrong");
}

void ArgumentsUnchanged(Kit& k) {
  PJRT_Buffer *x = X(k), *y = Y(k);
  Get(k, Execute(k, Compile(k, kAdd), {x, y})[0]);
  k.Require(GetAs<float>(k, x) == kX && GetAs<float>(k, y) == kY, "an execution changed its arguments");
  k.Require(!IsDeleted(k, x) && !IsDeleted(k, y), "an execution deleted arguments that were not donated");
}

void CompleteEvents(Kit& k) {
  Launch launch;
  launch.executable = Compile(k, kCount);
  launch.arguments = {{Put<int32_t>(k, {}, {100000})}};
  launch.want_events = true;
  const Err e = TryExecute(k, &launch);
  k.Require(e.ok(), FormatError(e));
  Await(k, launch.events[0], "the event of the execution");
  PJRT_Event* ready = ReadyEvent(k, launch.outputs[0][0]);
  k.Require(WaitFor(0.5, [&] { return IsReady(k, ready); }),
            "the execution is said to be complete, its output half a second later not to be ready");
}

// ---- Donation

void Donation(Kit& k) {
  PJRT_LoadedExecutable* donate = Compile(k, kDonate);
  PJRT_Buffer *x = X(k), *y = Y(k);
  PJRT_Buffer* out = Execute(k, donate, {x, y})[0];
  k.Require(GetAs<float>(k, out) == kSum, "an execution that takes an argument over gives wrong results");
  k.Require(IsDeleted(k, x), "an argument that the program takes over is still alive after the execution");
  k.Require(!IsDeleted(k, y), "an argument that was not donated is gone");
}

void NotDonated(Kit& k) {
  Launch launch;
  launch.executable = Compile(k, kDonate);
  PJRT_Buffer *x = X(k), *y = Y(k);
  launch.arguments = {{x, y}};
  launch.not_donated = {0};
  const Err e = TryExecute(k, &launch);
  k.Require(e.ok(), FormatError(e));
  k.Require(GetAs<float>(k, launch.outputs[0][0]) == kSum, "wrong results");
  k.Require(!IsDeleted(k, x), "an argument that must not be donated is gone");
  k.Require(GetAs<float>(k, x) == kX, "an argument that must not be donated was written to");
}

void DonatedAgain(Kit& k) {
  PJRT_LoadedExecutable* donate = Compile(k, kDonate);
  PJRT_Buffer *x = X(k), *y = Y(k);
  Get(k, Execute(k, donate, {x, y})[0]);
  Launch launch;
  launch.executable = donate;
  launch.arguments = {{x, y}};
  Err e = TryExecute(k, &launch);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  k.Require(!e.ok(), "an argument that was donated before is accepted");
  k.Require(!e.message.empty(), CodeName(e.code), " without a message");
}

void DonatedAndRead(Kit& k) {
  PJRT_LoadedExecutable* donate = Compile(k, kDonate);
  PJRT_Buffer* x = X(k);
  Launch launch;
  launch.executable = donate;
  launch.arguments = {{x, x}};
  Err e = TryExecute(k, &launch);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  k.Require(!e.ok(), "one buffer is donated and read by the same execution");
}

// An argument with an external reference must keep its contents.
void DonationOfReferenced(Kit& k) {
  PJRT_LoadedExecutable* donate = Compile(k, kDonate);
  PJRT_Buffer *x = X(k), *y = Y(k);
  if (!IsOnCpu(k, x)) k.Skip("the host cannot see this memory");
  Await(k, ReadyEvent(k, x), "the argument");
  KIT_ARGS(k, up, PJRT_Buffer_IncreaseExternalReferenceCount);
  up.buffer = x;
  KIT_OK(k, PJRT_Buffer_IncreaseExternalReferenceCount, up);
  KIT_ARGS(k, p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  p.buffer = x;
  KIT_OK(k, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p);
  Launch launch;
  launch.executable = donate;
  launch.arguments = {{x, y}};
  const Err e = TryExecute(k, &launch);  // rejecting the call is correct too
  if (e.ok()) Get(k, launch.outputs[0][0]);
  k.Require(std::memcmp(p.device_memory_ptr, kX.data(), 16) == 0,
            "memory that is referenced from outside was written to");
}

// ---- Misuse

void WrongCount(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  for (size_t count : {size_t{0}, size_t{1}, size_t{3}}) {
    Launch launch;
    launch.executable = add;
    launch.arguments = {std::vector<PJRT_Buffer*>(count, X(k))};
    const Err e = TryExecute(k, &launch);
    k.Require(!e.ok(), "a program of two parameters runs with ", count, " arguments");
    k.Require(e.code == PJRT_Error_Code_INVALID_ARGUMENT || e.code == PJRT_Error_Code_FAILED_PRECONDITION, count,
              " arguments for two: ", FormatError(e), "; expected INVALID_ARGUMENT");
    k.Require(!e.message.empty(), count, " arguments for two: no message");
  }
}

void WrongArgument(Kit& k, PJRT_Buffer* wrong, absl::string_view what) {
  Launch launch;
  launch.executable = Compile(k, kAdd);
  launch.arguments = {{X(k), wrong}};
  Err e = TryExecute(k, &launch);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  k.Require(!e.ok(), what, " is accepted for f32[4]");
  k.Require(!e.message.empty(), what, ": ", CodeName(e.code), " without a message");
  k.Note(FormatError(e));
}
void WrongShape(Kit& k) { WrongArgument(k, Put<float>(k, {2, 2}, kX), "f32[2,2]"); }
void WrongSize(Kit& k) { WrongArgument(k, Put<float>(k, {5}, {1, 2, 3, 4, 5}), "f32[5]"); }
void WrongType(Kit& k) { WrongArgument(k, Put<int32_t>(k, {4}, {1, 2, 3, 4}), "s32[4]"); }
void DeletedArgument(Kit& k) {
  PJRT_Buffer* gone = X(k);
  Delete(k, gone);
  WrongArgument(k, gone, "a deleted buffer");
}

void AfterErrors(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  for (int i = 0; i < 20; ++i) {
    Launch launch;
    launch.executable = add;
    launch.arguments = {{X(k)}};
    TryExecute(k, &launch);
  }
  k.Require(RunF32(k, add, {kX, kY}) == kSum, "after executions that were refused results are wrong");
}

// ---- Timing

void ReturnsBeforeDone(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  int32_t n = 1000;
  double whole = 0;
  for (; n < 400000000; n *= 4) {  // until it takes a while on this plugin
    const double begin = GetSeconds();
    Get(k, Execute(k, count, {Put<int32_t>(k, {}, {n})})[0]);
    whole = GetSeconds() - begin;
    if (whole > 0.2) break;
  }
  if (whole < 0.1) k.Skip("no program found that takes long enough");
  PJRT_Buffer* argument = Put<int32_t>(k, {}, {n});
  const double begin = GetSeconds();
  PJRT_Buffer* out = Execute(k, count, {argument})[0];
  const double returned = GetSeconds() - begin;
  k.Require(returned < whole / 2, "PJRT_LoadedExecutable_Execute returned after ", returned, " s of work that takes ",
            whole, " s: it waits for the results");
  Await(k, ReadyEvent(k, out), "the result");
  k.Note(absl::StrCat("returned after ", returned, " s of ", whole, " s"));
}

void Chain(Kit& k) {  // each execution uses results that are not ready yet
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer *one = Put<float>(k, {4}, {1, 1, 1, 1}), *value = Put<float>(k, {4}, {0, 0, 0, 0});
  for (int i = 0; i < 500; ++i) {
    PJRT_Buffer* next = Execute(k, add, {value, one})[0];
    Destroy(k, value);
    value = next;
  }
  k.Require(GetAs<float>(k, value) == std::vector<float>(4, 500.0f), "500 additions one after the other give ",
            GetAs<float>(k, value)[0]);
}

void DestroyedWhileRunning(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  PJRT_Buffer* n = Put<int32_t>(k, {}, {300000});
  PJRT_Buffer* out = Execute(k, count, {n})[0];
  Destroy(k, n);
  Destroy(k, count);
  k.Require(GetAs<int32_t>(k, out)[0] == CountResult(300000),
            "an execution whose arguments and executable were destroyed gives wrong results");
}

void OutputDestroyedUnready(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  for (int i = 0; i < 10; ++i) Destroy(k, Execute(k, count, {Put<int32_t>(k, {}, {200000})})[0]);
  k.Require(GetAs<int32_t>(k, Execute(k, count, {Put<int32_t>(k, {}, {7})})[0])[0] == CountResult(7),
            "wrong results after outputs that nobody waited for");
}

void SameTwice(Kit& k) {
  std::vector<float> x(64), y(64);
  for (size_t i = 0; i < 64; ++i) x[i] = 1.0f / static_cast<float>(i + 1), y[i] = static_cast<float>(i) * 0.37f;
  PJRT_LoadedExecutable* matmul = Compile(k, kMatmul);
  const std::string first = Get(k, Execute(k, matmul, {Put<float>(k, {8, 8}, x), Put<float>(k, {8, 8}, y)})[0]);
  for (int i = 0; i < 20; ++i) {
    k.Require(Get(k, Execute(k, matmul, {Put<float>(k, {8, 8}, x), Put<float>(k, {8, 8}, y)})[0]) == first,
              "the same program on the same data gives other bits");
  }
}

// Returns the result of one execution of the sum with these options; it may not be ready yet.
PJRT_Buffer* AddWithOptions(Kit& k, PJRT_ExecuteOptions options) {
  options.struct_size = host::StructSizeAt(k.minor(), &options, PJRT_ExecuteOptions_STRUCT_SIZE);
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer *x = X(k), *y = Y(k), *outputs[1] = {nullptr};
  PJRT_Buffer* const arguments[] = {x, y};
  PJRT_Buffer* const* argument_lists[] = {arguments};
  PJRT_Buffer** output_lists[] = {outputs};
  KIT_ARGS(k, a, PJRT_LoadedExecutable_Execute);
  a.executable = add;
  a.options = &options;
  a.argument_lists = argument_lists;
  a.num_devices = 1;
  a.num_args = 2;
  a.output_lists = output_lists;
  KIT_OK(k, PJRT_LoadedExecutable_Execute, a);
  return outputs[0];
}

void AddContext(Kit& k) {
  KIT_ARGS(k, c, PJRT_ExecuteContext_Create);
  KIT_OK(k, PJRT_ExecuteContext_Create, c);
  PJRT_ExecuteOptions options{};
  options.context = c.context;
  options.call_location = "kit.cc:1";
  options.launch_id = 7;
  PJRT_Buffer* sum = AddWithOptions(k, options);
  KIT_ARGS(k, d, PJRT_ExecuteContext_Destroy);
  d.context = c.context;
  KIT_OK(k, PJRT_ExecuteContext_Destroy, d);
  k.Require(GetAs<float>(k, sum) == kSum, "wrong results with an execute context");
}

void CustomOptions(Kit& k) {
  if (k.minor() < 116) k.Unsupported("executions have options of their own since minor 0.116, this is 0.", k.minor());
  PJRT_NamedValue values[2] = {};
  for (PJRT_NamedValue& value : values) value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  values[0].name = "kit.example/text";
  values[0].type = PJRT_NamedValue_kString;
  values[0].string_value = "unknown to all";
  values[0].value_size = std::strlen(values[0].string_value);
  values[1].name = "kit.example/number";
  values[1].type = PJRT_NamedValue_kInt64;
  values[1].int64_value = 3;
  values[1].value_size = 1;
  for (PJRT_NamedValue& value : values) value.name_size = std::strlen(value.name);
  PJRT_ExecuteOptions options{};
  options.custom_options = values;
  options.num_custom_options = 2;
  k.Require(GetAs<float>(k, AddWithOptions(k, options)) == kSum, "wrong results with unknown options");
}

constexpr Check kChecks[] = {
    {"execute.add", "PJRT_LoadedExecutable_Execute", "a sum", Add},
    {"execute.matmul", "", "a product of matrices", Matmul},
    {"execute.reduce", "", "sums of rows", SumRows},
    {"execute.loop", "", "a loop whose end is known when it runs", Loop},
    {"execute.no_arguments", "", "a program without parameters", NoArguments},
    {"execute.no_outputs", "", "a program without outputs", NoOutputs},
    {"execute.output_order", "", "outputs in their order", OutputOrder},
    {"execute.output_types", "", "outputs have the program's types", OutputType, 40},
    {"execute.zero_size", "", "arrays without elements", ZeroSize},
    {"execute.scalars", "", "scalars", Scalars},
    {"execute.pred", "", "truth values are bytes 0 and 1", Pred},
    {"execute.identity", "", "an output that equals an argument is a buffer of its own", IdentityIsItsOwn},
    {"execute.argument_twice", "", "one buffer for two parameters", ArgumentTwice},
    {"execute.arguments_unchanged", "", "arguments stay as they are", ArgumentsUnchanged},
    {"execute.complete_events", "", "the event of an execution", CompleteEvents},
    {"execute.donation", "PJRT_Buffer_IsDeleted", "an argument that the program takes over is gone after it", Donation},
    {"execute.not_donated", "PJRT_Buffer_IsDeleted", "the host may forbid that an argument is taken over", NotDonated},
    {"execute.donated_again", "", "a donated buffer cannot be used again", DonatedAgain},
    {"execute.donated_and_read", "", "a buffer is not donated and read at once", DonatedAndRead},
    {"execute.donation_referenced",
     "PJRT_Buffer_IncreaseExternalReferenceCount PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
     "memory with a reference from outside is not taken over", DonationOfReferenced},
    {"execute.wrong_count", "", "too few or too many arguments give an error", WrongCount},
    {"execute.wrong_shape", "", "an argument of another rank gives an error", WrongShape},
    {"execute.wrong_size", "", "an argument of another size gives an error", WrongSize},
    {"execute.wrong_type", "", "an argument of another type gives an error", WrongType},
    {"execute.deleted_argument", "PJRT_Buffer_Delete", "a deleted argument gives an error", DeletedArgument},
    {"execute.after_errors", "", "executions go on after others were refused", AfterErrors},
    {"execute.returns_early", "", "the call returns before the work is done", ReturnsBeforeDone, 90, true},
    {"execute.chain", "", "500 executions, each on the result of the one before", Chain, 60},
    {"execute.destroyed_while_running", "", "arguments and executable may go while the work is under way",
     DestroyedWhileRunning},
    {"execute.output_unready", "", "outputs may go before they are ready", OutputDestroyedUnready},
    {"execute.same_bits", "", "the same program on the same data gives the same bits", SameTwice},
    {"execute.custom_options", "", "unknown options change nothing", CustomOptions},
    {"execute.context", "PJRT_ExecuteContext_Create PJRT_ExecuteContext_Destroy",
     "an execution with a context, as JAX makes it", AddContext},
};

}  // namespace

absl::Span<const Check> ExecuteSuite() { return kChecks; }

}  // namespace backplane::conformance
