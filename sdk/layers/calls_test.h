// A host for the tests of this folder. It calls the fake backend through a stack of layers and the shim.
#ifndef BACKPLANE_SDK_LAYERS_CALLS_TEST_H_
#define BACKPLANE_SDK_LAYERS_CALLS_TEST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/test_macros.h"
#include "sdk/layers/layer.h"
#include "sdk/testing/api_calls.h"

namespace backplane::layers {

// Expects an OK status; a failure does not end the test.
#define EXPECT_OK(expr)                     \
  do {                                      \
    const absl::Status expected = (expr);   \
    EXPECT_TRUE(expected.ok()) << expected; \
  } while (false)

// A copy of the target's table, which a test may change before it creates the stack: a replaced slot is a plugin with a
// defect.
inline PJRT_Api& TargetCopy() {
  static PJRT_Api& table = *new PJRT_Api;
  table = *GetPjrtApi();
  return table;
}

class LayersTest : public ::testing::Test {
 protected:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  // Opens the stack through which the calls below go.
  void Open(std::vector<std::unique_ptr<Layer>> layers, const PJRT_Api* target = GetPjrtApi()) {
    absl::StatusOr<std::unique_ptr<Stack>> stack = Stack::Create(target, "fake", std::move(layers));
    ASSERT_TRUE(stack.ok()) << stack.status();
    stack_ = *std::move(stack);
  }
  void Open(const std::string& layer, Settings settings, const PJRT_Api* target = GetPjrtApi()) {
    absl::StatusOr<std::unique_ptr<Layer>> made = MakeLayerByName(layer, Options(layer, std::move(settings)));
    ASSERT_TRUE(made.ok()) << made.status();
    layer_ = made->get();
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(*std::move(made));
    Open(std::move(layers), target);
  }

  const PJRT_Api& api() const { return *stack_->api(); }

  absl::Status Take(PJRT_Error* error) const {
    if (error == nullptr) return absl::OkStatus();
    BP_ARGS(m, PJRT_Error_Message);
    m.error = error;
    api().PJRT_Error_Message(&m);
    BP_ARGS(c, PJRT_Error_GetCode);
    c.error = error;
    EXPECT_EQ(api().PJRT_Error_GetCode(&c), nullptr);
    absl::Status status(static_cast<absl::StatusCode>(c.code), absl::string_view(m.message, m.message_size));
    BP_ARGS(d, PJRT_Error_Destroy);
    d.error = error;
    api().PJRT_Error_Destroy(&d);
    return status;
  }

// CALL(PJRT_Client_Destroy, a) makes a call through the layers and returns its Status.
#define CALL(fn, args) Take(api().fn(&(args)))

  PJRT_Client* NewClient() const {
    BP_ARGS(a, PJRT_Client_Create);
    EXPECT_OK(CALL(PJRT_Client_Create, a));
    return a.client;
  }
  void Destroy(PJRT_Client* client) const {
    BP_ARGS(a, PJRT_Client_Destroy);
    a.client = client;
    EXPECT_OK(CALL(PJRT_Client_Destroy, a));
  }
  PJRT_Device* FirstDevice(PJRT_Client* client) const {
    BP_ARGS(a, PJRT_Client_AddressableDevices);
    a.client = client;
    EXPECT_OK(CALL(PJRT_Client_AddressableDevices, a));
    return a.num_addressable_devices == 0 ? nullptr : a.addressable_devices[0];
  }
  absl::Status NewBuffer(PJRT_Client* client, std::vector<float> values, PJRT_Buffer** buffer) const {
    const int64_t dims[] = {static_cast<int64_t>(values.size())};
    BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
    a.client = client;
    a.data = values.data();
    a.type = PJRT_Buffer_Type_F32;
    a.dims = dims;
    a.num_dims = 1;
    a.device = FirstDevice(client);
    a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    absl::Status status = CALL(PJRT_Client_BufferFromHostBuffer, a);
    *buffer = a.buffer;
    return status.ok() ? Await(a.done_with_host_buffer) : status;
  }
  PJRT_Buffer* NewBuffer(PJRT_Client* client, std::vector<float> values = {1, 2, 3, 4}) const {
    PJRT_Buffer* buffer = nullptr;
    EXPECT_OK(NewBuffer(client, std::move(values), &buffer));
    return buffer;
  }
  absl::Status Destroy(PJRT_Buffer* buffer) const {
    BP_ARGS(a, PJRT_Buffer_Destroy);
    a.buffer = buffer;
    return CALL(PJRT_Buffer_Destroy, a);
  }
  absl::Status Await(PJRT_Event* event) const {
    BP_ARGS(w, PJRT_Event_Await);
    w.event = event;
    absl::Status status = CALL(PJRT_Event_Await, w);
    BP_ARGS(d, PJRT_Event_Destroy);
    d.event = event;
    EXPECT_OK(CALL(PJRT_Event_Destroy, d));
    return status;
  }
  absl::Status Read(PJRT_Buffer* buffer, std::vector<float>* values) const {
    values->assign(4, -1);
    BP_ARGS(a, PJRT_Buffer_ToHostBuffer);
    a.src = buffer;
    a.dst = values->data();
    a.dst_size = values->size() * sizeof(float);
    absl::Status status = CALL(PJRT_Buffer_ToHostBuffer, a);
    return status.ok() ? Await(a.event) : status;
  }
  absl::Status Compile(PJRT_Client* client, const std::string& text, PJRT_LoadedExecutable** out) const {
    std::string code = text, options;
    PJRT_Program program{};
    program.struct_size = PJRT_Program_STRUCT_SIZE;
    program.code = code.data();
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    BP_ARGS(a, PJRT_Client_Compile);
    a.client = client;
    a.program = &program;
    a.compile_options = options.data();
    absl::Status status = CALL(PJRT_Client_Compile, a);
    *out = a.executable;
    return status;
  }
  PJRT_LoadedExecutable* Compile(PJRT_Client* client, const std::string& text) const {
    PJRT_LoadedExecutable* executable = nullptr;
    EXPECT_OK(Compile(client, text, &executable));
    return executable;
  }
  void Destroy(PJRT_LoadedExecutable* executable) const {
    BP_ARGS(a, PJRT_LoadedExecutable_Destroy);
    a.executable = executable;
    EXPECT_OK(CALL(PJRT_LoadedExecutable_Destroy, a));
  }
  // Executes on one device, with one output.
  absl::Status Execute(PJRT_LoadedExecutable* executable, std::vector<PJRT_Buffer*> arguments,
                       PJRT_Buffer** output) const {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    PJRT_Buffer* const* argument_list = arguments.data();
    PJRT_Buffer** output_list = output;
    PJRT_Event* event = nullptr;
    BP_ARGS(a, PJRT_LoadedExecutable_Execute);
    a.executable = executable;
    a.options = &options;
    a.argument_lists = &argument_list;
    a.num_devices = 1;
    a.num_args = arguments.size();
    a.output_lists = &output_list;
    a.device_complete_events = &event;
    absl::Status status = CALL(PJRT_LoadedExecutable_Execute, a);
    return status.ok() ? Await(event) : status;
  }
  // Creates and uses a client, buffers, a program, an execution and a read, and destroys everything.
  void RunAll() const {
    PJRT_Client* client = NewClient();
    PJRT_Buffer *x = NewBuffer(client), *y = NewBuffer(client), *z = nullptr;
    PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
    EXPECT_OK(Execute(add, {x, y}, &z));
    std::vector<float> values;
    EXPECT_OK(Read(z, &values));
    EXPECT_THAT(values, ::testing::ElementsAre(2, 4, 6, 8));
    for (PJRT_Buffer* b : {x, y, z}) EXPECT_OK(Destroy(b));
    Destroy(add);
    Destroy(client);
  }

  Layer* layer_ = nullptr;  // the layer of Open by name; destroyed with the stack
  std::unique_ptr<Stack> stack_;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_CALLS_TEST_H_
