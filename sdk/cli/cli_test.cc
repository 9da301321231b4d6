// Tests parts of the command that need no plugin: files with arrays, comparisons, pictures, inputs.
#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/command.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/ulp.h"

namespace backplane::cli {
namespace {

using host::HostArray;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Npy, ReadsWhatItWrites) {
  for (PJRT_Buffer_Type type :
       {PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_S8, PJRT_Buffer_Type_U64, PJRT_Buffer_Type_F16, PJRT_Buffer_Type_F64,
        PJRT_Buffer_Type_C128, PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_S4}) {
    HostArray array{type, {2, 3}, std::vector<std::byte>(6 * host::HostBytesPerElement(type), std::byte{1})};
    const std::string bytes = FormatNpy(array).value();
    const HostArray back = ParseNpy(bytes, type).value();
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(back.dims, array.dims);
    EXPECT_EQ(back.data, array.data);
    // Truncated at any byte it is an error, never a crash.
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(ParseNpy(absl::string_view(bytes).substr(0, size), type).ok()) << size;
  }
}

std::string File(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + std::string(1, '\0') + header + data;
}

TEST(Npy, OtherOrders) {
  const HostArray big =
      ParseNpy(File("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", std::string("\x01\x02\x03\x04", 4)))
          .value();
  EXPECT_THAT(big.Values<int16_t>(), ElementsAre(0x0102, 0x0304));
  const HostArray columns =
      ParseNpy(File("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "abcdef")).value();
  EXPECT_THAT(columns.Values<uint8_t>(), ElementsAre('a', 'c', 'e', 'b', 'd', 'f'));
  const HostArray scalar = ParseNpy(File("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\x01")).value();
  EXPECT_TRUE(scalar.dims.empty());
}

TEST(Npy, RefusesWhatIsWrong) {
  auto message = [](const std::string& header) {
    return std::string(ParseNpy(File(header, "abcd")).status().message());
  };
  EXPECT_THAT(message("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("takes 8 bytes, the file has 4"));
  EXPECT_THAT(message("{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("'<M8' has no element type"));
  EXPECT_THAT(message("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("structured types"));
  EXPECT_THAT(message("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), HasSubstr("shape cannot be read"));
  EXPECT_THAT(
      message("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }"),
      HasSubstr("too many"));
  EXPECT_THAT(message("{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }"), HasSubstr("raw elements"));
}

TEST(Zip, ReadsWhatItWrites) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"a", "hello"}, {"b", std::string(1000, 'x')}, {"c", ""}};
  const std::string bytes = FormatZip(members).value();
  EXPECT_EQ(ParseZip(bytes).value(), members);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(ParseZip(absl::string_view(bytes).substr(0, size)).ok()) << size;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(~changed[i]);
    ParseZip(changed).IgnoreError();  // an error or a result, never a crash
  }
  std::string changed = bytes;
  changed[36] = '!';  // a byte of "hello", after 30 bytes and the name
  EXPECT_THAT(ParseZip(changed).status().message(), HasSubstr("check sum"));
}

HostArray Floats(std::vector<float> values) {
  return HostArray::Of<float>({static_cast<int64_t>(values.size())}, values);
}

TEST(Ulp, CountsSteps) {
  const float next = std::nextafter(1.0f, 2.0f), inf = std::numeric_limits<float>::infinity(), nan = NAN;
  Difference d = Compare(Floats({1, 2, 0}), Floats({next, 2, -0.0f}), {}).value();
  EXPECT_EQ(d.max_ulp, 1);
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.worst, 0);
  EXPECT_TRUE(Compare(Floats({1}), Floats({next}), {1, 0}).value().agrees());
  EXPECT_TRUE(Compare(Floats({1}), Floats({1.5f}), {0, 0.5}).value().agrees());
  EXPECT_TRUE(Compare(Floats({nan, inf}), Floats({-nan, inf}), {}).value().agrees());
  d = Compare(Floats({nan}), Floats({1}), {1e30, 1e30}).value();
  EXPECT_EQ(d.differing, 1);
  EXPECT_TRUE(std::isinf(d.max_ulp));
  // Across zero: the smallest positive and the largest negative number are two steps apart.
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Compare(Floats({least}), Floats({-least}), {}).value().max_ulp, 2);
  EXPECT_EQ(Compare(Floats({inf}), Floats({std::numeric_limits<float>::max()}), {}).value().max_ulp, 1);
  EXPECT_EQ(
      Compare(HostArray::Of<int64_t>({1}, {INT64_MIN}), HostArray::Of<int64_t>({1}, {INT64_MAX}), {}).value().max_ulp,
      0x1p64);
  EXPECT_EQ(Compare(HostArray::Of<uint8_t>({1}, {0}), HostArray::Of<uint8_t>({1}, {255}), {}).value().max_ulp, 255);
  const std::complex<float> a(1, 1), b(1, next);
  EXPECT_EQ(Compare(HostArray::Of<std::complex<float>>({1}, {a}), HostArray::Of<std::complex<float>>({1}, {b}), {})
                .value()
                .max_ulp,
            1);
  const HostArray bf16_a{PJRT_Buffer_Type_BF16, {1}, {std::byte{0x80}, std::byte{0x3f}}},
      bf16_b{PJRT_Buffer_Type_BF16, {1}, {std::byte{0x83}, std::byte{0x3f}}};
  EXPECT_EQ(Compare(bf16_a, bf16_b, {}).value().max_ulp, 3);
  EXPECT_FALSE(Compare(Floats({1}), Floats({1, 2}), {}).ok());
}

TEST(Inputs, FollowTheSpecs) {
  const std::vector<host::ArrayShape> shapes = {{PJRT_Buffer_Type_F32, {2}},
                                                {PJRT_Buffer_Type_S32, {3}},
                                                {PJRT_Buffer_Type_C64, {}},
                                                {PJRT_Buffer_Type_F32, {2}}};
  std::vector<HostArray> in = MakeInputs(shapes, {"{1.5, -2}", "3:ones", "iota"}, 1).value();
  ASSERT_EQ(in.size(), 4u);
  EXPECT_THAT(in[0].Values<float>(), ElementsAre(1.5f, -2));
  EXPECT_THAT(in[1].Values<int32_t>(), ElementsAre(0, 1, 2));
  EXPECT_THAT(in[3].Values<float>(), ElementsAre(1, 1));
  EXPECT_NE(in[2].Values<std::complex<float>>()[0].imag(), 0);
  EXPECT_EQ(MakeInputs(shapes, {}, 1).value()[0].data, MakeInputs(shapes, {}, 1).value()[0].data);
  EXPECT_NE(MakeInputs(shapes, {}, 1).value()[0].data, MakeInputs(shapes, {}, 2).value()[0].data);
  in = MakeInputs(shapes, {"random=5..6", "random=7..8"}, 0).value();
  EXPECT_GE(in[0].Values<float>()[0], 5);
  EXPECT_THAT(in[1].Values<int32_t>(), ElementsAre(7, 7, 7));
  EXPECT_FALSE(MakeInputs(shapes, {"{1,2,3}"}, 0).ok());
  EXPECT_FALSE(MakeInputs(shapes, {"9:zeros"}, 0).ok());
  EXPECT_FALSE(MakeInputs(shapes, {"random=2..1"}, 0).ok());
  EXPECT_EQ(MakeInputs(shapes, {"/nowhere.npy"}, 0).status().code(), absl::StatusCode::kNotFound);
}

TEST(Inputs, ComeFromFiles) {
  const std::string npz = ::testing::TempDir() + "/inputs.npz";
  const HostArray a = HostArray::Of<float>({2}, {1, 2}), b = HostArray::Of<int32_t>({1}, {7});
  ASSERT_TRUE(WriteFile(npz, FormatZip({{"a", FormatNpy(a).value()}, {"b", FormatNpy(b).value()}}).value()).ok());
  const std::vector<host::ArrayShape> shapes = {{PJRT_Buffer_Type_S32, {1}}, {PJRT_Buffer_Type_F32, {2}}};
  const std::vector<HostArray> in = MakeInputs(shapes, {npz + ":b,a"}, 0).value();
  EXPECT_EQ(in[0].data, b.data);
  EXPECT_EQ(in[1].data, a.data);
  EXPECT_THAT(MakeInputs(shapes, {npz}, 0).status().message(), HasSubstr("is f32[2], parameter 0 is s32[1]"));
  EXPECT_EQ(MakeInputs(shapes, {npz + ":z"}, 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadInputs({npz}).value().size(), 2u);
  EXPECT_FALSE(ReadInputs({"random"}).ok());
}

TEST(Output, StatisticsAndText) {
  const HostArray array = Floats({1, 2, 3, 0, NAN, INFINITY});
  const Statistics s = ComputeStatistics(array).value();
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.nans, 1);
  EXPECT_EQ(s.infinities, 1);
  EXPECT_EQ(s.zeros, 1);
  EXPECT_EQ(s.max, 3);
  EXPECT_DOUBLE_EQ(s.mean, 1.5);
  EXPECT_NEAR(s.deviation, std::sqrt(1.25), 1e-12);
  EXPECT_EQ(PrintArray(array, 10).value(), "f32[6] {1, 2, 3, 0, nan, inf}");
  EXPECT_EQ(PrintArray(array, 2).value(), "f32[6] {1, 2, ... 4 more}");
}

TEST(Output, Pictures) {
  const std::string png = RenderPicture(HostArray::Of<float>({2, 3}, {0, 1, 2, 3, 4, NAN})).value();
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
  EXPECT_TRUE(RenderPicture(HostArray::Of<uint8_t>({1, 1, 3}, {255, 0, 0})).ok());
  EXPECT_THAT(RenderPicture(Floats({1})).status().message(), HasSubstr("expected [height,width]"));
}

TEST(Text, Tables) {
  EXPECT_EQ(FormatTable({{"a", "1"}, {"long", "22"}}, {1}), "a      1\nlong  22\n");
  EXPECT_EQ(Bytes(640), "640 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
}

TEST(Completion, KnowsEveryCommand) {
  for (const Command& command : AllCommands()) {
    EXPECT_FALSE(command.summary.empty()) << command.name;
    for (const Option& option : command.options)
      EXPECT_FALSE(option.help.empty()) << command.name << " " << option.name;
  }
  Terminal terminal(tmpfile(), stderr);
  for (const char* shell : {"bash", "zsh", "fish"}) EXPECT_TRUE(PrintCompletion(AllCommands(), shell, terminal).ok());
  EXPECT_FALSE(PrintCompletion(AllCommands(), "csh", terminal).ok());
}

}  // namespace
}  // namespace backplane::cli
