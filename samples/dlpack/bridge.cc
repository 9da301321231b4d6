// A plugin's buffers for Python, by ctypes: what exchange.py needs of sdk/host and sdk/host/dlpack.h as C functions.
//
// Every function returns null (or -1) on an error and leaves its text for bridge_error(). A tensor is the pointer that
// a capsule named "dltensor_versioned" (or, unversioned, "dltensor") holds.
#include <memory>
#include <string>
#include <vector>

#include "sdk/host/client.h"
#include "sdk/host/dlpack.h"
#include "sdk/host/status.h"

using namespace backplane::host;  // NOLINT: a sample

namespace {

thread_local std::string last_error;

template <typename T>
bool Take(absl::StatusOr<T>&& value, T* out) {
  if (!value.ok()) return last_error = value.status().ToString(), false;
  *out = *std::move(value);
  return true;
}

// What Python holds: a buffer that may be shared with tensors.
struct BridgeBuffer {
  std::shared_ptr<const Buffer> buffer;
  bool copied = false;
  std::string reason;
};

dlpack::Copy CopyMode(int copy) {
  return copy < 0 ? dlpack::Copy::kIfNeeded : copy == 0 ? dlpack::Copy::kNever : dlpack::Copy::kAlways;
}

BridgeBuffer* Hold(dlpack::Imported in) {
  return new BridgeBuffer{std::make_shared<const Buffer>(std::move(in.buffer)), in.copied, std::move(in.reason)};
}

}  // namespace

#define BRIDGE extern "C" __attribute__((visibility("default")))

BRIDGE const char* bridge_error() { return last_error.c_str(); }

BRIDGE Client* bridge_client(const char* path) {
  absl::StatusOr<const Plugin*> plugin = Plugin::Load(path);
  if (!plugin.ok()) return last_error = plugin.status().ToString(), nullptr;
  absl::StatusOr<Client> client = Client::Create(**plugin);
  if (!client.ok()) return last_error = client.status().ToString(), nullptr;
  return new Client(*std::move(client));
}
BRIDGE void bridge_client_free(Client* client) { delete client; }

// The argument times itself, on the device.
BRIDGE BridgeBuffer* bridge_square(Client* client, BridgeBuffer* x) {
  absl::StatusOr<std::string> shape = x->buffer->FormatShape();
  absl::StatusOr<std::vector<int64_t>> dims = x->buffer->Dims();
  absl::StatusOr<PJRT_Buffer_Type> type = x->buffer->ElementType();
  if (!dims.ok() || !type.ok()) return last_error = "no shape", nullptr;
  const std::string name = ElementTypeName(*type);
  std::string text = "tensor<";
  for (int64_t dim : *dims) text += std::to_string(dim) + "x";
  text += (name[0] == 's' ? "i" + name.substr(1) : name) + ">";
  const std::string code = "func.func @main(%x: " + text + ") -> " + text +
                           " {\n  %0 = stablehlo.multiply %x, %x : " + text + "\n  return %0 : " + text + "\n}";
  LoadedExecutable square;
  std::vector<Buffer> out;
  if (!Take(client->Compile({"mlir", code}), &square) || !Take(square.Execute({x->buffer.get()}), &out)) return nullptr;
  return new BridgeBuffer{std::make_shared<const Buffer>(std::move(out[0]))};
}

BRIDGE BridgeBuffer* bridge_import(Client* client, void* tensor, int versioned, int copy) {
  dlpack::ImportOptions options;
  options.copy = CopyMode(copy);
  absl::StatusOr<dlpack::Imported> in =
      versioned != 0 ? dlpack::Import(*client, static_cast<dlpack::ManagedTensorVersioned*>(tensor), options)
                     : dlpack::Import(*client, static_cast<dlpack::ManagedTensor*>(tensor), options);
  if (!in.ok()) return last_error = in.status().ToString(), nullptr;
  return Hold(*std::move(in));
}

BRIDGE void* bridge_export(BridgeBuffer* held, int versioned, int copy) {
  dlpack::ExportOptions options;
  options.copy = CopyMode(copy);
  if (versioned != 0) {
    absl::StatusOr<dlpack::Exported> out = dlpack::Export(held->buffer, options);
    if (!out.ok()) return last_error = out.status().ToString(), nullptr;
    return out->tensor.release();
  }
  absl::StatusOr<dlpack::ExportedUnversioned> out = dlpack::ExportUnversioned(held->buffer, options);
  if (!out.ok()) return last_error = out.status().ToString(), nullptr;
  return out->tensor.release();
}

// Deletes a tensor that has not been consumed.
BRIDGE void bridge_tensor_free(void* tensor, int versioned) {
  if (versioned != 0) {
    auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(tensor);
    managed->deleter(managed);
  } else {
    auto* managed = static_cast<dlpack::ManagedTensor*>(tensor);
    managed->deleter(managed);
  }
}

BRIDGE int bridge_copied(BridgeBuffer* held) { return held->copied ? 1 : 0; }
BRIDGE const char* bridge_reason(BridgeBuffer* held) { return held->reason.c_str(); }
BRIDGE uintptr_t bridge_address(BridgeBuffer* held) { return held->buffer->UnsafePointer().value_or(0); }
BRIDGE void bridge_free(BridgeBuffer* held) { delete held; }
