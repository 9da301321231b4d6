#include "sdk/backend/serialized_executable.h"

#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n";

struct Facts {
  int64_t peak = 0;
  double share = 0;
};

std::string Write() {
  ExecutableWriter writer("backend 1", "x86-64");
  CompileOptions options;
  options.num_replicas = 2;
  options.num_partitions = 3;
  writer.AddOptions(options);
  writer.AddCost({{"flops", 7.0f}, {"text", std::string("left out")}, {"bytes accessed", 0.5f}});
  writer.AddPlain(Facts{13, 0.25});
  EXPECT_TRUE(writer.AddModule(**ParseHloModule(kProgram)).ok());
  writer.AddBytes("code");
  writer.AddBytes("");
  return std::move(writer).Take();
}

struct Contents {
  CompileOptions options;
  NamedValues cost;
  Facts facts;
  std::unique_ptr<Module> module;
  std::vector<std::string> objects;
};

absl::StatusOr<Contents> Read(absl::string_view bytes) {
  Contents contents;
  ASSIGN_OR_RETURN(ExecutableReader reader, ExecutableReader::Open(bytes, "backend 1", "x86-64"));
  ASSIGN_OR_RETURN(contents.options, reader.ReadOptions());
  ASSIGN_OR_RETURN(contents.cost, reader.ReadCost());
  RETURN_IF_ERROR(reader.ReadPlain("facts", &contents.facts));
  ASSIGN_OR_RETURN(contents.module, reader.ReadModule("program", contents.options));
  for (int i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(absl::string_view object, reader.ReadBytes("object code"));
    contents.objects.emplace_back(object);
  }
  RETURN_IF_ERROR(reader.CheckAtEnd());
  return contents;
}

absl::Status ReadAll(absl::string_view bytes) { return Read(bytes).status(); }

TEST(SerializedExecutableTest, WhatIsWrittenIsRead) {
  const std::string bytes = Write();
  EXPECT_EQ(bytes, Write());
  absl::StatusOr<Contents> read = Read(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->options.num_partitions, 3);
  EXPECT_EQ(read->module->config().num_replicas, 2);
  EXPECT_EQ(read->module->config().num_partitions, 3);
  EXPECT_EQ(read->module->ToString(), [] {
    auto module = *ParseHloModule(kProgram);
    module->config().num_replicas = 2;
    module->config().num_partitions = 3;
    return module->ToString();
  }());
  EXPECT_EQ(read->cost, (NamedValues{{"flops", 7.0f}, {"bytes accessed", 0.5f}}));
  EXPECT_EQ(read->facts.peak, 13);
  EXPECT_EQ(read->facts.share, 0.25);
  EXPECT_THAT(read->objects, testing::ElementsAre("code", ""));
}

TEST(SerializedExecutableTest, ForeignBytesAreRefused) {
  const std::string bytes = Write();
  auto open = [](absl::string_view b, absl::string_view backend, absl::string_view target) {
    return ExecutableReader::Open(b, backend, target).status();
  };
  EXPECT_EQ(open("something else", "backend 1", "x86-64").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(open("", "backend 1", "x86-64").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(open(bytes, "backend 2", "x86-64"),
            absl::FailedPreconditionError("serialized executable: made by backend 1, this is backend 2"));
  EXPECT_EQ(open(bytes, "backend 1", "arm64"),
            absl::FailedPreconditionError("serialized executable: compiled for x86-64, this is arm64"));
  std::string newer = bytes;
  newer[16] = 9;  // behind the magic number and the size of the version
  EXPECT_EQ(open(newer, "backend 1", "x86-64"),
            absl::FailedPreconditionError("serialized executable: format 9, expected 1"));
}

TEST(SerializedExecutableTest, EveryCutIsAnError) {
  const std::string bytes = Write();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = ReadAll(absl::string_view(bytes).substr(0, size));
    EXPECT_FALSE(status.ok()) << size;
    EXPECT_FALSE(status.message().empty()) << size;
  }
  EXPECT_THAT(std::string(ReadAll(bytes.substr(0, bytes.size() - 9)).message()),
              HasSubstr("object code has 4 bytes, of which 3 are there"));
  EXPECT_EQ(ReadAll(bytes + "more"), absl::InvalidArgumentError("serialized executable: 4 bytes too many"));
}

TEST(SerializedExecutableTest, SizesBeyondTheBytesAreErrors) {
  const std::string bytes = Write();
  for (size_t at = 8; at + 8 <= bytes.size(); ++at) {
    std::string bad = bytes;
    bad.replace(at, 8, std::string(8, '\xff'));
    ReadAll(bad).IgnoreError();  // must return, whatever it says
  }
  std::string bad = bytes;
  bad.replace(8, 8, std::string(8, '\xff'));  // the size of the version
  EXPECT_EQ(ReadAll(bad).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SerializedExecutableTest, FieldsOfAnotherSizeAreErrors) {
  ExecutableWriter writer("b", "");
  writer.AddBytes("abc");
  const std::string bytes = std::move(writer).Take();
  absl::StatusOr<ExecutableReader> reader = ExecutableReader::Open(bytes, "b", "");
  ASSERT_TRUE(reader.ok()) << reader.status();
  int64_t value = 0;
  EXPECT_EQ(reader->ReadPlain("peak", &value),
            absl::InvalidArgumentError("serialized executable: peak has 3 bytes, expected 8"));
}

}  // namespace
}  // namespace backplane
