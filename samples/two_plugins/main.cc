// Two vendors' plugins in one process: a value goes through a program on the first, then through one on the second,
// with work going on in both at once.
//
//   two_plugins FIRST.so SECOND.so
#include <cstdio>
#include <thread>
#include <vector>

#include "sdk/host/client.h"
#include "sdk/host/status.h"

namespace {

using namespace backplane::host;  // NOLINT: a sample

constexpr char kDouble[] = R"(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
})";

struct Side {
  const Plugin* plugin;
  Client client;
  LoadedExecutable twice;
};

absl::StatusOr<Side> Open(const char* path) {
  BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(path));
  BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin));
  BP_ASSIGN_OR_RETURN(LoadedExecutable twice, client.Compile({"mlir", kDouble}));
  BP_ASSIGN_OR_RETURN(const std::string version, client.PlatformVersion());
  printf("%s: PJRT C API 0.%d, %.40s\n", path, plugin->minor_version(), version.c_str());
  return Side{plugin, std::move(client), std::move(twice)};
}

absl::StatusOr<HostArray> Twice(const Side& side, const HostArray& x) {
  BP_ASSIGN_OR_RETURN(const Buffer buffer, side.client.ToDevice(x));
  BP_ASSIGN_OR_RETURN(const std::vector<Buffer> out, side.twice.Execute({&buffer}));
  return out[0].ToHost();
}

// Passes a value back and forth; each round doubles it twice.
absl::Status Rally(const Side& a, const Side& b, int rounds) {
  HostArray value = HostArray::Of<float>({4}, {1, -1, 0.5f, 0});
  for (int i = 0; i < rounds; ++i) {
    BP_ASSIGN_OR_RETURN(value, Twice(a, value));
    BP_ASSIGN_OR_RETURN(value, Twice(b, value));
  }
  float want = 1;
  for (int i = 0; i < 2 * rounds; ++i) want *= 2;
  const absl::Span<const float> v = value.Values<float>();
  if (v[0] != want || v[1] != -want || v[2] != want / 2 || v[3] != 0) return absl::InternalError("the value is wrong");
  return absl::OkStatus();
}

absl::Status Run(const char* first, const char* second) {
  BP_ASSIGN_OR_RETURN(const Side a, Open(first));
  BP_ASSIGN_OR_RETURN(const Side b, Open(second));
  if (a.plugin == b.plugin) return absl::InvalidArgumentError("expected two plugins, got the same one twice");
  std::vector<absl::Status> outcomes(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < outcomes.size(); ++t) {
    threads.emplace_back([&, t] { outcomes[t] = t % 2 == 0 ? Rally(a, b, 30) : Rally(b, a, 30); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& outcome : outcomes) BP_RETURN_IF_ERROR(outcome);
  // An error of one plugin has its own message, and the other plugin still works.
  const absl::Status bad = b.client.Compile({"mlir", "nonsense"}).status();
  if (bad.ok()) return absl::InternalError("nonsense was compiled");
  BP_RETURN_IF_ERROR(Rally(a, b, 1));
  printf("4 threads handed values to and fro\n");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s FIRST.so SECOND.so\n", argv[0]), 2;
  const absl::Status status = Run(argv[1], argv[2]);
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
