// Copies host -> tiles -> host through the C ABI of the emulator: no data is lost, for every element type, rank and odd
// sizes, in the machine's layout and in layouts that the host requests, whatever the padding contains.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "sdk/host/client.h"
#include "sdk/host/loader.h"

namespace backplane::host {
namespace {

using Dims = std::vector<int64_t>;

constexpr int kDrawsPerRank = 8;

Client OpenEmulator(const std::string& poison) {
  const absl::StatusOr<const Plugin*> plugin = Plugin::Load(BACKPLANE_EMULATOR);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  absl::StatusOr<Client> client =
      Client::Create(**plugin, {NamedValue{"poison", poison}, NamedValue{"topology", std::string("2")}});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

std::vector<PJRT_Buffer_Type> ElementTypes() {
  std::vector<PJRT_Buffer_Type> out;
  for (int t = 0; t < 128; ++t) {
    if (BitsPerElement(static_cast<PJRT_Buffer_Type>(t)) > 0) out.push_back(static_cast<PJRT_Buffer_Type>(t));
  }
  return out;
}

// Random bits, except that a pred is 0 or 1 and types narrower than a byte are extended, as hosts pass them in.
std::vector<std::byte> RandomElements(PJRT_Buffer_Type type, size_t bytes, std::mt19937_64& random) {
  const std::string name = ElementTypeName(type);
  const int bits = BitsPerElement(type);
  std::vector<std::byte> data(bytes);
  for (std::byte& b : data) {
    int64_t value = static_cast<int64_t>(random() & 0xFF);
    if (name == "pred") {
      value &= 1;
    } else if (bits < 8) {
      value &= (1 << bits) - 1;
      if (name[0] == 's' && (value >> (bits - 1)) != 0) value -= 1 << bits;
    }
    b = static_cast<std::byte>(value);
  }
  return data;
}

// Sizes around tile boundaries, at most some thousand elements in total.
Dims RandomDims(int rank, std::mt19937_64& random) {
  static constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 31, 32, 33, 65, 127, 128, 129, 257};
  Dims dims;
  int64_t room = 6000;
  for (int d = 0; d < rank; ++d) {
    const int64_t size = kSizes[random() % std::size(kSizes)];
    dims.push_back(size <= room ? size : 1);
    room /= dims.back();
  }
  std::shuffle(dims.begin(), dims.end(), random);
  return dims;
}

Dims RandomOrder(size_t rank, std::mt19937_64& random) {
  Dims order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

PJRT_Buffer_MemoryLayout MakeLayout(const Dims& minor_to_major, const Dims& tile = {},
                                    const size_t* tile_rank = nullptr) {
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  if (tile_rank != nullptr) {
    layout.tiled.tile_dims = tile.data();
    layout.tiled.tile_dim_sizes = tile_rank;
    layout.tiled.num_tiles = 1;
  }
  return layout;
}

Buffer Put(const Client& client, const HostArray& array, const PJRT_Buffer_MemoryLayout* layout) {
  const Plugin& plugin = client.plugin();
  const absl::StatusOr<std::vector<Device>> devices = client.AddressableDevices();
  BP_PJRT_ARGS(plugin, a, PJRT_Client_BufferFromHostBuffer);
  a.client = client.raw();
  a.data = array.data.empty() ? static_cast<const void*>(&a) : array.data.data();
  a.type = array.type;
  a.dims = array.dims.data();
  a.num_dims = array.dims.size();
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  a.device = (*devices)[0].raw();
  a.device_layout = const_cast<PJRT_Buffer_MemoryLayout*>(layout);
  const absl::Status s = BP_PJRT_CALL(plugin, PJRT_Client_BufferFromHostBuffer, a);
  EXPECT_TRUE(s.ok()) << s;
  Buffer buffer(plugin, nullptr, a.buffer);
  EXPECT_TRUE(Event(plugin, nullptr, a.done_with_host_buffer).Await().ok());
  return buffer;
}

std::vector<std::byte> Get(const Client& client, const Buffer& buffer, const Dims& minor_to_major, size_t bytes) {
  const Plugin& plugin = client.plugin();
  PJRT_Buffer_MemoryLayout layout = MakeLayout(minor_to_major);
  std::vector<std::byte> out(std::max<size_t>(bytes, 1));
  BP_PJRT_ARGS(plugin, a, PJRT_Buffer_ToHostBuffer);
  a.src = buffer.raw();
  a.host_layout = &layout;
  a.dst = out.data();
  a.dst_size = bytes;
  const absl::Status s = BP_PJRT_CALL(plugin, PJRT_Buffer_ToHostBuffer, a);
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_TRUE(Event(plugin, nullptr, a.event).Await().ok());
  out.resize(bytes);
  return out;
}

Dims RowMajor(size_t rank) {
  Dims order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

// Returns the elements of a row-major array in another order of dimensions.
std::vector<std::byte> InOrder(const HostArray& array, const Dims& minor_to_major) {
  const size_t width = static_cast<size_t>(HostBytesPerElement(array.type)), rank = array.dims.size();
  std::vector<std::byte> out(array.data.size());
  Dims index(rank, 0);
  for (size_t from = 0; from < array.data.size(); from += width) {
    int64_t to = 0;
    for (size_t k = rank; k-- > 0;) to = to * array.dims[minor_to_major[k]] + index[minor_to_major[k]];
    std::memcpy(out.data() + static_cast<size_t>(to) * width, array.data.data() + from, width);
    for (size_t d = rank; d-- > 0 && ++index[d] == array.dims[d];) index[d] = 0;
  }
  return out;
}

// A program reverses the array twice, which must restore it.
Buffer Reversed(const Client& client, const HostArray& array, const Buffer& buffer) {
  std::string type = "tensor<";
  for (int64_t d : array.dims) absl::StrAppend(&type, d, "x");
  absl::StrAppend(&type, array.type == PJRT_Buffer_Type_BF16 ? "bf16>" : "i32>");
  const std::string dims = absl::StrJoin(RowMajor(array.dims.size()), ", ");
  const absl::StatusOr<LoadedExecutable> program =
      client.Compile({"mlir", absl::StrCat("func.func public @main(%x: ", type, ") -> ", type,
                                           " {\n  %0 = stablehlo.reverse %x, dims = [", dims, "] : ", type,
                                           "\n  %1 = stablehlo.reverse %0, dims = [", dims, "] : ", type,
                                           "\n  return %1 : ", type, "\n}\n")});
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return Buffer();
  absl::StatusOr<std::vector<Buffer>> out = program->Execute({&buffer});
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? std::move((*out)[0]) : Buffer();
}

class TileRoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(TileRoundTrip, LosesNothing) {
  const Client client = OpenEmulator(GetParam());
  const absl::StatusOr<std::vector<Device>> devices = client.AddressableDevices();
  ASSERT_TRUE(devices.ok() && devices->size() == 2);
  std::mt19937_64 random(20261122);
  const std::vector<PJRT_Buffer_Type> types = ElementTypes();
  EXPECT_GE(types.size(), 30u);
  int transposed = 0, padded = 0, arrays = 0;
  for (PJRT_Buffer_Type type : types) {
    for (int rank = 0; rank <= 6; ++rank) {
      for (int draw = 0; draw < kDrawsPerRank; ++draw) {
        HostArray array{type, RandomDims(rank, random), {}};
        if (draw == 0 && rank > 0) array.dims[random() % array.dims.size()] = 0;  // no elements
        const absl::StatusOr<size_t> bytes = HostByteSize(type, array.dims);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        array.data = RandomElements(type, *bytes, random);
        SCOPED_TRACE(absl::StrCat(ElementTypeName(type), "[", absl::StrJoin(array.dims, ","), "]"));
        const Dims asked = RandomOrder(array.dims.size(), random), read = RandomOrder(array.dims.size(), random);
        // The machine's layout; an order without tiles; an order with unusual tiles.
        const Dims tile = {5, 16};
        const size_t tile_rank = tile.size();
        const PJRT_Buffer_MemoryLayout dense = MakeLayout(asked), odd = MakeLayout(asked, tile, &tile_rank);
        for (const PJRT_Buffer_MemoryLayout* wish :
             {static_cast<const PJRT_Buffer_MemoryLayout*>(nullptr), &dense, &odd}) {
          if (wish == &odd && (rank < 2 || *bytes == 0)) continue;
          const Buffer buffer = Put(client, array, wish);
          const absl::StatusOr<BufferLayout> lies = buffer.Layout();
          ASSERT_TRUE(lies.ok()) << lies.status();
          if (wish == nullptr) {
            if (lies->minor_to_major != RowMajor(array.dims.size())) ++transposed;
            EXPECT_EQ(lies->tiles.empty(), *bytes == 0) << "arrays live in tiles, where there is anything of them";
          } else {
            EXPECT_EQ(lies->minor_to_major, asked);
            EXPECT_EQ(lies->tiles, wish == &odd ? std::vector<Dims>{tile} : std::vector<Dims>{});
          }
          const absl::StatusOr<size_t> size = buffer.OnDeviceSize();
          ASSERT_TRUE(size.ok()) << size.status();
          EXPECT_GE(8 * *size, static_cast<size_t>(BitsPerElement(type)) * (*bytes / HostBytesPerElement(type)));
          if (*size > *bytes) ++padded;
          ASSERT_EQ(Get(client, buffer, RowMajor(array.dims.size()), *bytes), array.data);
          ASSERT_EQ(Get(client, buffer, read, *bytes), InOrder(array, read)) << absl::StrJoin(read, ",");
          const absl::StatusOr<Buffer> there = buffer.CopyToDevice((*devices)[1]);
          ASSERT_TRUE(there.ok()) << there.status();
          ASSERT_EQ(Get(client, *there, RowMajor(array.dims.size()), *bytes), array.data) << "on the other device";
          // Programs read and write them too.
          if (wish == nullptr && draw < 2 && (type == PJRT_Buffer_Type_S32 || type == PJRT_Buffer_Type_BF16)) {
            ASSERT_EQ(Get(client, Reversed(client, array, buffer), RowMajor(array.dims.size()), *bytes), array.data);
          }
          ++arrays;
        }
      }
    }
  }
  // The random cases must cover the intended situations.
  EXPECT_GT(transposed, arrays / 20);
  EXPECT_GT(padded, arrays / 2);
}

INSTANTIATE_TEST_SUITE_P(Padding, TileRoundTrip, testing::Values("zero", "nan", "random"),
                         [](const testing::TestParamInfo<const char*>& p) { return std::string(p.param); });

}  // namespace
}  // namespace backplane::host
