// Tests DLPack with two plugins: our shim in this process, and one that we did not build, if it is installed.
#include "sdk/host/dlpack.h"

#include <sys/stat.h>

#include <atomic>
#include <optional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/test_macros.h"
#include "sdk/testing/api_calls.h"

namespace backplane::host::dlpack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tensor of another framework, which counts how often it is deleted.
struct Foreign {
  std::vector<int64_t> shape, strides;
  std::atomic<int> deleted{0};
  ManagedTensorVersioned managed{};
  Foreign(void* data, DataType type, std::vector<int64_t> dims, std::vector<int64_t> steps = {}, uint64_t flags = 0)
      : shape(std::move(dims)), strides(std::move(steps)) {
    managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](ManagedTensorVersioned* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    managed.flags = flags;
    managed.tensor = {data, {kCpu, 0},    static_cast<int32_t>(shape.size()),
                      type, shape.data(), strides.empty() ? nullptr : strides.data(),
                      0};
  }
  bool WaitDeleted() {
    for (int i = 0; i < 1000 && deleted == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return deleted == 1;
  }
};

constexpr DataType kF32{kFloat, 32, 1};

class DlpackTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Plugin* plugin;
    if (*GetParam() != '\0') {
      struct stat info;
      if (stat(GetParam(), &info) != 0) GTEST_SKIP() << GetParam() << " is not installed";
      ASSERT_OK_AND_ASSIGN(plugin, Plugin::Load(GetParam()));
    } else {
      ASSERT_OK_AND_ASSIGN(plugin, Plugin::FromApi(GetPjrtApi(), "in process"));
    }
    ASSERT_OK_AND_ASSIGN(Client client, Client::Create(*plugin));
    client_.emplace(std::move(client));
  }
  std::shared_ptr<const Buffer> Share(const HostArray& array) {
    absl::StatusOr<Buffer> buffer = client_->ToDevice(array);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? std::make_shared<const Buffer>(*std::move(buffer)) : nullptr;
  }
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Plugins, DlpackTest, ::testing::Values("", BACKPLANE_XLA_CPU_PLUGIN),
                         [](const auto& info) { return *info.param == '\0' ? "shim" : "xla"; });

TEST_P(DlpackTest, ExportsWithoutACopy) {
  std::shared_ptr<const Buffer> buffer = Share(HostArray::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  ASSERT_OK_AND_ASSIGN(Exported out, Export(buffer));
  EXPECT_FALSE(out.copied) << out.reason;
  ASSERT_OK_AND_ASSIGN(uintptr_t address, buffer->UnsafePointer());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(out.tensor->tensor.data), address);
  EXPECT_EQ(out.tensor->flags, kReadOnly);
  EXPECT_EQ(out.tensor->version.major, 1u);
  buffer.reset();
  client_.reset();  // the tensor keeps buffer and client
  const Tensor& t = out.tensor->tensor;
  EXPECT_EQ(t.ndim, 2);
  EXPECT_THAT(absl::MakeConstSpan(t.shape, 2), ElementsAre(2, 3));
  EXPECT_THAT(absl::MakeConstSpan(t.strides, 2), ElementsAre(3, 1));
  EXPECT_EQ(static_cast<const float*>(t.data)[5], 6);
  std::thread([&] { out.tensor.reset(); }).join();  // deleted in another thread
}

TEST_P(DlpackTest, ExportsACopyWhenAsked) {
  std::shared_ptr<const Buffer> buffer = Share(HostArray::Of<int16_t>({3}, {7, 8, 9}));
  ExportOptions options;
  options.copy = Copy::kAlways;
  ASSERT_OK_AND_ASSIGN(Exported out, Export(buffer, options));
  EXPECT_TRUE(out.copied);
  EXPECT_EQ(out.tensor->flags, kIsCopied);
  static_cast<int16_t*>(out.tensor->tensor.data)[0] = 1;
  ASSERT_OK_AND_ASSIGN(HostArray back, buffer->ToHost());
  EXPECT_THAT(back.Values<int16_t>(), ElementsAre(7, 8, 9));
}

TEST_P(DlpackTest, ExportsEveryType) {
  for (PJRT_Buffer_Type type :
       {PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_C64,
        PJRT_Buffer_Type_C128, PJRT_Buffer_Type_S4, PJRT_Buffer_Type_U4, PJRT_Buffer_Type_F16}) {
    const HostArray array{type, {4}, std::vector<std::byte>(4 * HostBytesPerElement(type), std::byte{1})};
    std::shared_ptr<const Buffer> buffer = Share(array);
    ASSERT_NE(buffer, nullptr) << ElementTypeName(type);
    ASSERT_OK_AND_ASSIGN(Exported out, Export(buffer));
    ASSERT_OK_AND_ASSIGN(DataType expected, ToDlpack(type));
    EXPECT_EQ(out.tensor->tensor.dtype.code, expected.code);
    EXPECT_EQ(out.tensor->tensor.dtype.bits, BitsPerElement(type));
    ASSERT_OK_AND_ASSIGN(PJRT_Buffer_Type back, FromDlpack(expected));
    EXPECT_EQ(back, type);
    // Imports the tensor again, with the flags.
    ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, out.tensor.release()));
    ASSERT_OK_AND_ASSIGN(HostArray same, in.buffer.ToHost());
    EXPECT_EQ(same.type, type);
    EXPECT_EQ(same.data, array.data) << ElementTypeName(type);
  }
  EXPECT_EQ(ToDlpack(PJRT_Buffer_Type_TOKEN).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FromDlpack({kFloat, 32, 4}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FromDlpack({kOpaqueHandle, 64, 1}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_P(DlpackTest, ImportsWithoutACopy) {
  alignas(64) float memory[16] = {1, 2, 3, 4, 5, 6};
  Foreign tensor(memory, kF32, {2, 8});
  {
    ImportOptions never;
    never.copy = Copy::kNever;
    ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, &tensor.managed, never));
    EXPECT_FALSE(in.copied);
    ASSERT_OK_AND_ASSIGN(uintptr_t address, in.buffer.UnsafePointer());
    EXPECT_EQ(address, reinterpret_cast<uintptr_t>(memory));
    ASSERT_OK_AND_ASSIGN(HostArray back, in.buffer.ToHost());
    EXPECT_EQ(back.Values<float>()[5], 6);
    EXPECT_EQ(tensor.deleted, 0);
  }
  EXPECT_TRUE(tensor.WaitDeleted());
}

TEST_P(DlpackTest, ReadOnlyMemoryIsNotWrittenTo) {
  alignas(64) float memory[16] = {1, 2, 3, 4};
  Foreign tensor(memory, kF32, {4}, {}, kReadOnly);
  {
    ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, &tensor.managed));
    ASSERT_OK_AND_ASSIGN(LoadedExecutable donate, client_->Compile({"mlir", testing::kDonate}));
    ASSERT_OK_AND_ASSIGN(Buffer one, client_->ToDevice(HostArray::Of<float>({4}, {1, 1, 1, 1})));
    absl::StatusOr<std::vector<Buffer>> out = donate.Execute({&in.buffer, &one});
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_OK_AND_ASSIGN(HostArray sum, (*out)[0].ToHost());
    EXPECT_THAT(sum.Values<float>(), ElementsAre(2, 3, 4, 5));
  }
  EXPECT_TRUE(tensor.WaitDeleted());
  EXPECT_EQ(memory[0], 1);
  EXPECT_EQ(memory[3], 4);
}

TEST_P(DlpackTest, CopiesWithAReason) {
  alignas(64) float memory[32];
  for (int i = 0; i < 32; ++i) memory[i] = static_cast<float>(i);
  auto in = [&](Foreign* tensor) {
    absl::StatusOr<Imported> imported = Import(*client_, &tensor->managed);
    EXPECT_TRUE(imported.ok()) << imported.status();
    EXPECT_TRUE(!imported.ok() || imported->copied);
    EXPECT_EQ(tensor->deleted, imported.ok() ? 1 : 0);
    return imported.ok() ? *std::move(imported) : Imported();
  };
  Foreign odd(memory + 1, kF32, {4});
  EXPECT_THAT(in(&odd).reason, HasSubstr("not aligned to 64 bytes"));
  Foreign gaps(memory, kF32, {2, 3}, {8, 2});
  Imported gapped = in(&gaps);
  EXPECT_THAT(gapped.reason, HasSubstr("do not lie densely"));
  ASSERT_OK_AND_ASSIGN(HostArray back, gapped.buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(0, 2, 4, 8, 10, 12));
  Foreign backwards(memory + 16, kF32, {3}, {-1});
  ASSERT_OK_AND_ASSIGN(back, in(&backwards).buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(16, 15, 14));
  Foreign repeated(memory + 16, kF32, {2, 2}, {0, 1});
  ASSERT_OK_AND_ASSIGN(back, in(&repeated).buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(16, 17, 16, 17));
  Foreign empty(nullptr, kF32, {0, 5});
  ASSERT_OK_AND_ASSIGN(back, in(&empty).buffer.ToHost());
  EXPECT_EQ(back.dims, (std::vector<int64_t>{0, 5}));
  Foreign offset(memory, kF32, {2});
  offset.managed.tensor.byte_offset = 12;
  ASSERT_OK_AND_ASSIGN(back, in(&offset).buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(3, 4));
}

TEST_P(DlpackTest, ImportsTransposedAndPacked) {
  alignas(64) float memory[16] = {0, 1, 2, 3, 4, 5};
  Foreign transposed(memory, kF32, {3, 2}, {1, 3});  // dense, the first dimension fastest
  ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, &transposed.managed));
  ASSERT_OK_AND_ASSIGN(HostArray back, in.buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  in = Imported();
  EXPECT_TRUE(transposed.WaitDeleted());
  uint8_t packed[] = {0x21, 0x43};
  Foreign nibbles(packed, {kUInt, 4, 1}, {4});
  ASSERT_OK_AND_ASSIGN(in, Import(*client_, &nibbles.managed));
  ASSERT_OK_AND_ASSIGN(back, in.buffer.ToHost());
  EXPECT_THAT(back.data, ElementsAre(std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}));
}

TEST_P(DlpackTest, RefusesWhatMakesNoSense) {
  alignas(64) float memory[16] = {};
  auto refused = [&](Foreign* tensor, ImportOptions options = {}) {
    absl::Status status = Import(*client_, &tensor->managed, options).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(tensor->deleted, 0) << "the tensor stays the caller's";
    return std::string(status.message());
  };
  Foreign negative(memory, kF32, {-1});
  EXPECT_THAT(refused(&negative), HasSubstr("dim 0 is -1"));
  Foreign huge(memory, kF32, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_THAT(refused(&huge), HasSubstr("too many elements"));
  Foreign nowhere(nullptr, kF32, {4});
  EXPECT_THAT(refused(&nowhere), HasSubstr("no data"));
  Foreign future(memory, kF32, {4});
  future.managed.version = {2, 0};
  EXPECT_THAT(refused(&future), HasSubstr("version 2.0"));
  Foreign shapeless(memory, kF32, {4});
  shapeless.managed.tensor.shape = nullptr;
  EXPECT_THAT(refused(&shapeless), HasSubstr("no shape"));
  Foreign elsewhere(memory, kF32, {4});
  elsewhere.managed.tensor.device = {kCuda, 0};
  EXPECT_THAT(refused(&elsewhere), HasSubstr("device type 2"));
  Foreign odd(memory + 1, kF32, {4});
  ImportOptions never;
  never.copy = Copy::kNever;
  EXPECT_THAT(refused(&odd, never), HasSubstr("needs a copy: its memory is not aligned"));
  Foreign ranks(memory, kF32, {4});
  ranks.managed.tensor.ndim = 1000;
  EXPECT_THAT(refused(&ranks), HasSubstr("1000 dims"));
}

TEST_P(DlpackTest, UnversionedBothWays) {
  std::shared_ptr<const Buffer> buffer = Share(HostArray::Of<double>({2}, {1.5, 2.5}));
  ASSERT_OK_AND_ASSIGN(ExportedUnversioned out, ExportUnversioned(buffer));
  ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, out.tensor.release()));
  buffer.reset();
  ASSERT_OK_AND_ASSIGN(HostArray back, in.buffer.ToHost());
  EXPECT_THAT(back.Values<double>(), ElementsAre(1.5, 2.5));
}

TEST_P(DlpackTest, MemoryThatIsNotTheHosts) {
  if (*GetParam() != '\0') GTEST_SKIP() << "all its memories are the host's";
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, client_->AddressableDevices());
  ASSERT_OK_AND_ASSIGN(Memory remote, devices[0].MemoryOfKind("remote"));
  ASSERT_OK_AND_ASSIGN(Buffer there, client_->ToDevice(HostArray::Of<float>({2}, {1, 2}), remote));
  auto buffer = std::make_shared<const Buffer>(std::move(there));
  ASSERT_OK_AND_ASSIGN(Exported out, Export(buffer));
  EXPECT_TRUE(out.copied);
  EXPECT_THAT(out.reason, HasSubstr("not the host's"));
  EXPECT_EQ(out.tensor->tensor.device.device_type, kCpu);
  EXPECT_EQ(static_cast<const float*>(out.tensor->tensor.data)[1], 2);
  EXPECT_EQ(GetDlDevice(*client_, devices[0]).status().code(), absl::StatusCode::kUnimplemented);
  alignas(64) float memory[16] = {3, 4};
  Foreign tensor(memory, kF32, {2});
  ImportOptions options;
  options.location = remote;
  ASSERT_OK_AND_ASSIGN(Imported in, Import(*client_, &tensor.managed, options));
  EXPECT_TRUE(in.copied);
  EXPECT_THAT(in.reason, HasSubstr("not the host's"));
  ASSERT_OK_AND_ASSIGN(HostArray back, in.buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(3, 4));
}

TEST_P(DlpackTest, ManyThreadsPassArraysOn) {
  std::shared_ptr<const Buffer> shared = Share(HostArray::Of<float>({16}, std::vector<float>(16, 3)));
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        absl::StatusOr<Exported> out = Export(shared);
        if (!out.ok()) return;
        absl::StatusOr<Imported> in = Import(*client_, out->tensor.release());
        if (!in.ok()) return;
        absl::StatusOr<HostArray> back = in->buffer.ToHost();
        if (back.ok() && back->Values<float>()[15] == 3) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * 50);
}

}  // namespace
}  // namespace backplane::host::dlpack
