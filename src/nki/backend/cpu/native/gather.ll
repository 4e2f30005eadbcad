; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 26b9f21f71f88e3839cb5bb9e6f6773bbb25fc97242a8458321a734a09f7fc3d

define void @nki_offsets(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %1, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 24
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds ptr, ptr %0, i64 %12
  %16 = load ptr, ptr %15, align 8
  %17 = getelementptr inbounds i8, ptr %16, i64 %14
  %18 = getelementptr inbounds i8, ptr %0, i64 16
  %19 = load ptr, ptr %18, align 8
  %20 = getelementptr inbounds i8, ptr %1, i64 48
  %21 = load i64, ptr %20, align 8
  %22 = icmp sgt i64 %21, 0
  br i1 %22, label %23, label %41

23:
  %24 = getelementptr inbounds i8, ptr %1, i64 64
  %25 = getelementptr inbounds i8, ptr %1, i64 56
  %26 = getelementptr inbounds i8, ptr %1, i64 32
  %27 = getelementptr inbounds i8, ptr %1, i64 40
  %28 = getelementptr inbounds i8, ptr %1, i64 104
  %29 = getelementptr inbounds i8, ptr %1, i64 80
  %30 = getelementptr inbounds i8, ptr %1, i64 72
  %31 = getelementptr inbounds i8, ptr %1, i64 88
  %32 = getelementptr inbounds i8, ptr %1, i64 96
  %33 = getelementptr inbounds i8, ptr %19, i64 8
  %34 = getelementptr inbounds i8, ptr %19, i64 16
  %35 = load i64, ptr %24, align 8
  br label %36

36:
  %37 = phi i64 [ %21, %23 ], [ %45, %44 ]
  %38 = phi i64 [ %35, %23 ], [ %46, %44 ]
  %39 = phi i64 [ 0, %23 ], [ %47, %44 ]
  %40 = icmp sgt i64 %38, 0
  br i1 %40, label %49, label %44

41:
  ret void

42:
  %43 = load i64, ptr %20, align 8
  br label %44

44:
  %45 = phi i64 [ %43, %42 ], [ %37, %36 ]
  %46 = phi i64 [ %96, %42 ], [ %38, %36 ]
  %47 = add i64 %39, 1
  %48 = icmp slt i64 %47, %45
  br i1 %48, label %36, label %41

49:
  %50 = phi i64 [ %96, %89 ], [ %38, %36 ]
  %51 = phi i64 [ %95, %89 ], [ 0, %36 ]
  %52 = load i64, ptr %25, align 8
  %53 = mul i64 %52, %39
  %54 = srem i64 %51, %52
  %55 = add i64 %53, %54
  %56 = load i64, ptr %26, align 8
  %57 = mul i64 %55, %56
  %58 = getelementptr inbounds i8, ptr %10, i64 %57
  %59 = sdiv i64 %51, %52
  %60 = load i64, ptr %27, align 8
  %61 = mul i64 %60, %59
  %62 = getelementptr inbounds i8, ptr %58, i64 %61
  %63 = load i64, ptr %28, align 8
  switch i64 %63, label %73 [
    i64 1, label %64
    i64 2, label %67
    i64 4, label %70
  ]

64:
  %65 = load i8, ptr %62, align 1
  %66 = zext i8 %65 to i64
  br label %75

67:
  %68 = load i16, ptr %62, align 1
  %69 = zext i16 %68 to i64
  br label %75

70:
  %71 = load i32, ptr %62, align 1
  %72 = zext i32 %71 to i64
  br label %75

73:
  %74 = load i64, ptr %62, align 1
  br label %75

75:
  %76 = phi i64 [ %74, %73 ], [ %66, %64 ], [ %69, %67 ], [ %72, %70 ]
  %77 = load i64, ptr %29, align 8
  %78 = icmp sgt i64 %76, %77
  br i1 %78, label %79, label %86

79:
  %80 = load i64, ptr %19, align 8
  %81 = icmp eq i64 %80, 0
  br i1 %81, label %82, label %89

82:
  %83 = load i64, ptr %31, align 8
  store i64 %83, ptr %19, align 8
  %84 = load i64, ptr %32, align 8
  store i64 %84, ptr %33, align 8
  store i64 %76, ptr %34, align 8
  %85 = load i64, ptr %24, align 8
  br label %89

86:
  %87 = load i64, ptr %30, align 8
  %88 = mul i64 %87, %76
  br label %89

89:
  %90 = phi i64 [ %50, %86 ], [ %85, %82 ], [ %50, %79 ]
  %91 = phi i64 [ %88, %86 ], [ 0, %82 ], [ 0, %79 ]
  %92 = mul i64 %90, %39
  %93 = getelementptr i64, ptr %17, i64 %92
  %94 = getelementptr i64, ptr %93, i64 %51
  store i64 %91, ptr %94, align 8
  %95 = add i64 %51, 1
  %96 = load i64, ptr %24, align 8
  %97 = icmp slt i64 %95, %96
  br i1 %97, label %49, label %42
}

define void @nki_gather(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = getelementptr inbounds i8, ptr %1, i64 16
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %1, i64 24
  %8 = load i64, ptr %7, align 8
  %9 = getelementptr inbounds ptr, ptr %0, i64 %6
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %10, i64 %8
  %12 = getelementptr inbounds i8, ptr %1, i64 64
  %13 = load i64, ptr %12, align 8
  %14 = icmp sgt i64 %13, 0
  br i1 %14, label %15, label %34

15:
  %16 = getelementptr inbounds i8, ptr %1, i64 32
  %17 = load i64, ptr %16, align 8
  %18 = getelementptr inbounds ptr, ptr %0, i64 %17
  %19 = load ptr, ptr %18, align 8
  %20 = getelementptr inbounds i8, ptr %1, i64 40
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr inbounds i8, ptr %19, i64 %21
  %23 = load i64, ptr %1, align 8
  %24 = getelementptr inbounds ptr, ptr %0, i64 %23
  %25 = load ptr, ptr %24, align 8
  %26 = getelementptr inbounds i8, ptr %1, i64 8
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds i8, ptr %25, i64 %27
  %29 = getelementptr inbounds i8, ptr %1, i64 72
  %30 = getelementptr inbounds i8, ptr %1, i64 80
  %31 = getelementptr inbounds i8, ptr %1, i64 88
  %32 = getelementptr inbounds i8, ptr %1, i64 48
  %33 = getelementptr inbounds i8, ptr %1, i64 56
  br label %35

34:
  ret void

35:
  %36 = phi ptr [ %28, %15 ], [ %253, %250 ]
  %37 = phi i64 [ 0, %15 ], [ %251, %250 ]
  %38 = phi ptr [ %22, %15 ], [ %255, %250 ]
  %39 = load i64, ptr %29, align 8
  %40 = sdiv i64 %37, %39
  %41 = load i64, ptr %30, align 8
  %42 = mul i64 %41, %40
  %43 = getelementptr inbounds i64, ptr %11, i64 %42
  %44 = load i64, ptr %31, align 8
  %45 = icmp sgt i64 %41, 0
  switch i64 %44, label %151 [
    i64 1, label %46
    i64 2, label %81
    i64 4, label %116
  ]

46:
  br i1 %45, label %47, label %250

47:
  %48 = and i64 %41, 3
  %49 = icmp ult i64 %41, 4
  br i1 %49, label %204, label %50

50:
  %51 = and i64 %41, 9223372036854775804
  br label %52

52:
  %53 = phi i64 [ 0, %50 ], [ %78, %52 ]
  %54 = phi i64 [ 0, %50 ], [ %79, %52 ]
  %55 = getelementptr inbounds i64, ptr %43, i64 %53
  %56 = load i64, ptr %55, align 8
  %57 = getelementptr inbounds i8, ptr %36, i64 %56
  %58 = load i8, ptr %57, align 1
  %59 = getelementptr inbounds i8, ptr %38, i64 %53
  store i8 %58, ptr %59, align 1
  %60 = or i64 %53, 1
  %61 = getelementptr inbounds i64, ptr %43, i64 %60
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr inbounds i8, ptr %36, i64 %62
  %64 = load i8, ptr %63, align 1
  %65 = getelementptr inbounds i8, ptr %38, i64 %60
  store i8 %64, ptr %65, align 1
  %66 = or i64 %53, 2
  %67 = getelementptr inbounds i64, ptr %43, i64 %66
  %68 = load i64, ptr %67, align 8
  %69 = getelementptr inbounds i8, ptr %36, i64 %68
  %70 = load i8, ptr %69, align 1
  %71 = getelementptr inbounds i8, ptr %38, i64 %66
  store i8 %70, ptr %71, align 1
  %72 = or i64 %53, 3
  %73 = getelementptr inbounds i64, ptr %43, i64 %72
  %74 = load i64, ptr %73, align 8
  %75 = getelementptr inbounds i8, ptr %36, i64 %74
  %76 = load i8, ptr %75, align 1
  %77 = getelementptr inbounds i8, ptr %38, i64 %72
  store i8 %76, ptr %77, align 1
  %78 = add i64 %53, 4
  %79 = add i64 %54, 4
  %80 = icmp eq i64 %79, %51
  br i1 %80, label %202, label %52

81:
  br i1 %45, label %82, label %250

82:
  %83 = and i64 %41, 3
  %84 = icmp ult i64 %41, 4
  br i1 %84, label %220, label %85

85:
  %86 = and i64 %41, 9223372036854775804
  br label %87

87:
  %88 = phi i64 [ 0, %85 ], [ %113, %87 ]
  %89 = phi i64 [ 0, %85 ], [ %114, %87 ]
  %90 = getelementptr inbounds i64, ptr %43, i64 %88
  %91 = load i64, ptr %90, align 8
  %92 = getelementptr inbounds i8, ptr %36, i64 %91
  %93 = load i16, ptr %92, align 1
  %94 = getelementptr inbounds i16, ptr %38, i64 %88
  store i16 %93, ptr %94, align 1
  %95 = or i64 %88, 1
  %96 = getelementptr inbounds i64, ptr %43, i64 %95
  %97 = load i64, ptr %96, align 8
  %98 = getelementptr inbounds i8, ptr %36, i64 %97
  %99 = load i16, ptr %98, align 1
  %100 = getelementptr inbounds i16, ptr %38, i64 %95
  store i16 %99, ptr %100, align 1
  %101 = or i64 %88, 2
  %102 = getelementptr inbounds i64, ptr %43, i64 %101
  %103 = load i64, ptr %102, align 8
  %104 = getelementptr inbounds i8, ptr %36, i64 %103
  %105 = load i16, ptr %104, align 1
  %106 = getelementptr inbounds i16, ptr %38, i64 %101
  store i16 %105, ptr %106, align 1
  %107 = or i64 %88, 3
  %108 = getelementptr inbounds i64, ptr %43, i64 %107
  %109 = load i64, ptr %108, align 8
  %110 = getelementptr inbounds i8, ptr %36, i64 %109
  %111 = load i16, ptr %110, align 1
  %112 = getelementptr inbounds i16, ptr %38, i64 %107
  store i16 %111, ptr %112, align 1
  %113 = add i64 %88, 4
  %114 = add i64 %89, 4
  %115 = icmp eq i64 %114, %86
  br i1 %115, label %218, label %87

116:
  br i1 %45, label %117, label %250

117:
  %118 = and i64 %41, 3
  %119 = icmp ult i64 %41, 4
  br i1 %119, label %236, label %120

120:
  %121 = and i64 %41, 9223372036854775804
  br label %122

122:
  %123 = phi i64 [ 0, %120 ], [ %148, %122 ]
  %124 = phi i64 [ 0, %120 ], [ %149, %122 ]
  %125 = getelementptr inbounds i64, ptr %43, i64 %123
  %126 = load i64, ptr %125, align 8
  %127 = getelementptr inbounds i8, ptr %36, i64 %126
  %128 = load i32, ptr %127, align 1
  %129 = getelementptr inbounds i32, ptr %38, i64 %123
  store i32 %128, ptr %129, align 1
  %130 = or i64 %123, 1
  %131 = getelementptr inbounds i64, ptr %43, i64 %130
  %132 = load i64, ptr %131, align 8
  %133 = getelementptr inbounds i8, ptr %36, i64 %132
  %134 = load i32, ptr %133, align 1
  %135 = getelementptr inbounds i32, ptr %38, i64 %130
  store i32 %134, ptr %135, align 1
  %136 = or i64 %123, 2
  %137 = getelementptr inbounds i64, ptr %43, i64 %136
  %138 = load i64, ptr %137, align 8
  %139 = getelementptr inbounds i8, ptr %36, i64 %138
  %140 = load i32, ptr %139, align 1
  %141 = getelementptr inbounds i32, ptr %38, i64 %136
  store i32 %140, ptr %141, align 1
  %142 = or i64 %123, 3
  %143 = getelementptr inbounds i64, ptr %43, i64 %142
  %144 = load i64, ptr %143, align 8
  %145 = getelementptr inbounds i8, ptr %36, i64 %144
  %146 = load i32, ptr %145, align 1
  %147 = getelementptr inbounds i32, ptr %38, i64 %142
  store i32 %146, ptr %147, align 1
  %148 = add i64 %123, 4
  %149 = add i64 %124, 4
  %150 = icmp eq i64 %149, %121
  br i1 %150, label %234, label %122

151:
  br i1 %45, label %152, label %250

152:
  %153 = and i64 %41, 3
  %154 = icmp ult i64 %41, 4
  br i1 %154, label %188, label %155

155:
  %156 = and i64 %41, 9223372036854775804
  br label %157

157:
  %158 = phi i64 [ 0, %155 ], [ %183, %157 ]
  %159 = phi i64 [ 0, %155 ], [ %184, %157 ]
  %160 = getelementptr inbounds i64, ptr %43, i64 %158
  %161 = load i64, ptr %160, align 8
  %162 = getelementptr inbounds i8, ptr %36, i64 %161
  %163 = load i64, ptr %162, align 1
  %164 = getelementptr inbounds i64, ptr %38, i64 %158
  store i64 %163, ptr %164, align 1
  %165 = or i64 %158, 1
  %166 = getelementptr inbounds i64, ptr %43, i64 %165
  %167 = load i64, ptr %166, align 8
  %168 = getelementptr inbounds i8, ptr %36, i64 %167
  %169 = load i64, ptr %168, align 1
  %170 = getelementptr inbounds i64, ptr %38, i64 %165
  store i64 %169, ptr %170, align 1
  %171 = or i64 %158, 2
  %172 = getelementptr inbounds i64, ptr %43, i64 %171
  %173 = load i64, ptr %172, align 8
  %174 = getelementptr inbounds i8, ptr %36, i64 %173
  %175 = load i64, ptr %174, align 1
  %176 = getelementptr inbounds i64, ptr %38, i64 %171
  store i64 %175, ptr %176, align 1
  %177 = or i64 %158, 3
  %178 = getelementptr inbounds i64, ptr %43, i64 %177
  %179 = load i64, ptr %178, align 8
  %180 = getelementptr inbounds i8, ptr %36, i64 %179
  %181 = load i64, ptr %180, align 1
  %182 = getelementptr inbounds i64, ptr %38, i64 %177
  store i64 %181, ptr %182, align 1
  %183 = add i64 %158, 4
  %184 = add i64 %159, 4
  %185 = icmp eq i64 %184, %156
  br i1 %185, label %186, label %157

186:
  %187 = icmp eq i64 %153, 0
  br i1 %187, label %250, label %188

188:
  %189 = phi i64 [ 0, %152 ], [ %183, %186 ]
  %190 = icmp ne i64 %153, 0
  tail call void @llvm.assume(i1 %190)
  br label %191

191:
  %192 = phi i64 [ %199, %191 ], [ %189, %188 ]
  %193 = phi i64 [ %200, %191 ], [ 0, %188 ]
  %194 = getelementptr inbounds i64, ptr %43, i64 %192
  %195 = load i64, ptr %194, align 8
  %196 = getelementptr inbounds i8, ptr %36, i64 %195
  %197 = load i64, ptr %196, align 1
  %198 = getelementptr inbounds i64, ptr %38, i64 %192
  store i64 %197, ptr %198, align 1
  %199 = add i64 %192, 1
  %200 = add i64 %193, 1
  %201 = icmp eq i64 %200, %153
  br i1 %201, label %250, label %191

202:
  %203 = icmp eq i64 %48, 0
  br i1 %203, label %250, label %204

204:
  %205 = phi i64 [ 0, %47 ], [ %78, %202 ]
  %206 = icmp ne i64 %48, 0
  tail call void @llvm.assume(i1 %206)
  br label %207

207:
  %208 = phi i64 [ %215, %207 ], [ %205, %204 ]
  %209 = phi i64 [ %216, %207 ], [ 0, %204 ]
  %210 = getelementptr inbounds i64, ptr %43, i64 %208
  %211 = load i64, ptr %210, align 8
  %212 = getelementptr inbounds i8, ptr %36, i64 %211
  %213 = load i8, ptr %212, align 1
  %214 = getelementptr inbounds i8, ptr %38, i64 %208
  store i8 %213, ptr %214, align 1
  %215 = add i64 %208, 1
  %216 = add i64 %209, 1
  %217 = icmp eq i64 %216, %48
  br i1 %217, label %250, label %207

218:
  %219 = icmp eq i64 %83, 0
  br i1 %219, label %250, label %220

220:
  %221 = phi i64 [ 0, %82 ], [ %113, %218 ]
  %222 = icmp ne i64 %83, 0
  tail call void @llvm.assume(i1 %222)
  br label %223

223:
  %224 = phi i64 [ %231, %223 ], [ %221, %220 ]
  %225 = phi i64 [ %232, %223 ], [ 0, %220 ]
  %226 = getelementptr inbounds i64, ptr %43, i64 %224
  %227 = load i64, ptr %226, align 8
  %228 = getelementptr inbounds i8, ptr %36, i64 %227
  %229 = load i16, ptr %228, align 1
  %230 = getelementptr inbounds i16, ptr %38, i64 %224
  store i16 %229, ptr %230, align 1
  %231 = add i64 %224, 1
  %232 = add i64 %225, 1
  %233 = icmp eq i64 %232, %83
  br i1 %233, label %250, label %223

234:
  %235 = icmp eq i64 %118, 0
  br i1 %235, label %250, label %236

236:
  %237 = phi i64 [ 0, %117 ], [ %148, %234 ]
  %238 = icmp ne i64 %118, 0
  tail call void @llvm.assume(i1 %238)
  br label %239

239:
  %240 = phi i64 [ %247, %239 ], [ %237, %236 ]
  %241 = phi i64 [ %248, %239 ], [ 0, %236 ]
  %242 = getelementptr inbounds i64, ptr %43, i64 %240
  %243 = load i64, ptr %242, align 8
  %244 = getelementptr inbounds i8, ptr %36, i64 %243
  %245 = load i32, ptr %244, align 1
  %246 = getelementptr inbounds i32, ptr %38, i64 %240
  store i32 %245, ptr %246, align 1
  %247 = add i64 %240, 1
  %248 = add i64 %241, 1
  %249 = icmp eq i64 %248, %118
  br i1 %249, label %250, label %239

250:
  %251 = add i64 %37, 1
  %252 = load i64, ptr %32, align 8
  %253 = getelementptr inbounds i8, ptr %36, i64 %252
  %254 = load i64, ptr %33, align 8
  %255 = getelementptr inbounds i8, ptr %38, i64 %254
  %256 = load i64, ptr %12, align 8
  %257 = icmp slt i64 %251, %256
  br i1 %257, label %35, label %34
}

define void @nki_scatter(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %1, i64 32
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds ptr, ptr %0, i64 %12
  %16 = load ptr, ptr %15, align 8
  %17 = getelementptr inbounds i8, ptr %16, i64 %14
  %18 = getelementptr inbounds i8, ptr %1, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = getelementptr inbounds i8, ptr %1, i64 24
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr inbounds ptr, ptr %0, i64 %19
  %23 = load ptr, ptr %22, align 8
  %24 = getelementptr inbounds i8, ptr %23, i64 %21
  %25 = getelementptr inbounds i8, ptr %1, i64 80
  %26 = load i64, ptr %25, align 8
  %27 = getelementptr inbounds i8, ptr %1, i64 96
  %28 = load i64, ptr %27, align 8
  %29 = icmp eq i64 %28, 0
  br i1 %29, label %43, label %30

30:
  %31 = getelementptr inbounds i8, ptr %1, i64 120
  %32 = load i64, ptr %31, align 8
  %33 = getelementptr inbounds i8, ptr %1, i64 104
  %34 = load i64, ptr %33, align 8
  %35 = getelementptr inbounds i8, ptr %1, i64 112
  %36 = load i64, ptr %35, align 8
  %37 = getelementptr inbounds ptr, ptr %0, i64 %34
  %38 = load ptr, ptr %37, align 8
  %39 = getelementptr inbounds i8, ptr %38, i64 %36
  %40 = getelementptr inbounds i8, ptr %1, i64 128
  %41 = load i64, ptr %40, align 8
  %42 = icmp ne i64 %41, 0
  br label %43

43:
  %44 = phi ptr [ %39, %30 ], [ %17, %4 ]
  %45 = phi i64 [ %32, %30 ], [ 0, %4 ]
  %46 = phi i1 [ %42, %30 ], [ false, %4 ]
  %47 = getelementptr inbounds i8, ptr %1, i64 64
  %48 = load i64, ptr %47, align 8
  %49 = icmp sgt i64 %48, 0
  br i1 %49, label %50, label %137

50:
  %51 = getelementptr inbounds i8, ptr %1, i64 72
  %52 = getelementptr inbounds i8, ptr %1, i64 88
  %53 = icmp sgt i64 %26, 0
  %54 = getelementptr inbounds i8, ptr %1, i64 48
  %55 = getelementptr inbounds i8, ptr %1, i64 56
  %56 = add i64 %26, -1
  %57 = and i64 %26, 1
  %58 = icmp eq i64 %56, 0
  %59 = and i64 %26, 9223372036854775806
  %60 = icmp eq i64 %57, 0
  %61 = icmp ne i64 %57, 0
  %62 = and i64 %26, 1
  %63 = icmp eq i64 %56, 0
  %64 = and i64 %26, 9223372036854775806
  %65 = icmp eq i64 %62, 0
  %66 = icmp ne i64 %62, 0
  %67 = and i64 %26, 1
  %68 = icmp eq i64 %56, 0
  %69 = and i64 %26, 9223372036854775806
  %70 = icmp eq i64 %67, 0
  %71 = icmp ne i64 %67, 0
  %72 = and i64 %26, 1
  %73 = icmp eq i64 %56, 0
  %74 = and i64 %26, 9223372036854775806
  %75 = icmp eq i64 %72, 0
  %76 = icmp ne i64 %72, 0
  %77 = and i64 %26, 1
  %78 = icmp eq i64 %56, 0
  %79 = and i64 %26, 9223372036854775806
  %80 = icmp eq i64 %77, 0
  %81 = icmp ne i64 %77, 0
  %82 = and i64 %26, 1
  %83 = icmp eq i64 %56, 0
  %84 = and i64 %26, 9223372036854775806
  %85 = icmp eq i64 %82, 0
  %86 = icmp ne i64 %82, 0
  %87 = and i64 %26, 1
  %88 = icmp eq i64 %56, 0
  %89 = and i64 %26, 9223372036854775806
  %90 = icmp eq i64 %87, 0
  %91 = icmp ne i64 %87, 0
  %92 = and i64 %26, 1
  %93 = icmp eq i64 %56, 0
  %94 = and i64 %26, 9223372036854775806
  %95 = icmp eq i64 %92, 0
  %96 = icmp ne i64 %92, 0
  %97 = and i64 %26, 3
  %98 = icmp ult i64 %56, 3
  %99 = and i64 %26, 9223372036854775804
  %100 = icmp eq i64 %97, 0
  %101 = icmp ne i64 %97, 0
  %102 = and i64 %26, 3
  %103 = icmp ult i64 %56, 3
  %104 = and i64 %26, 9223372036854775804
  %105 = icmp eq i64 %102, 0
  %106 = icmp ne i64 %102, 0
  %107 = and i64 %26, 3
  %108 = icmp ult i64 %56, 3
  %109 = and i64 %26, 9223372036854775804
  %110 = icmp eq i64 %107, 0
  %111 = icmp ne i64 %107, 0
  %112 = and i64 %26, 3
  %113 = icmp ult i64 %56, 3
  %114 = and i64 %26, 9223372036854775804
  %115 = icmp eq i64 %112, 0
  %116 = icmp ne i64 %112, 0
  %117 = and i64 %26, 1
  %118 = icmp eq i64 %56, 0
  %119 = and i64 %26, 9223372036854775806
  %120 = icmp eq i64 %117, 0
  %121 = icmp ne i64 %117, 0
  %122 = and i64 %26, 1
  %123 = icmp eq i64 %56, 0
  %124 = and i64 %26, 9223372036854775806
  %125 = icmp eq i64 %122, 0
  %126 = icmp ne i64 %122, 0
  %127 = and i64 %26, 1
  %128 = icmp eq i64 %56, 0
  %129 = and i64 %26, 9223372036854775806
  %130 = icmp eq i64 %127, 0
  %131 = icmp ne i64 %127, 0
  %132 = and i64 %26, 1
  %133 = icmp eq i64 %56, 0
  %134 = and i64 %26, 9223372036854775806
  %135 = icmp eq i64 %132, 0
  %136 = icmp ne i64 %132, 0
  br label %138

137:
  ret void

138:
  %139 = phi ptr [ %10, %50 ], [ %878, %875 ]
  %140 = phi ptr [ %17, %50 ], [ %880, %875 ]
  %141 = phi i64 [ 0, %50 ], [ %876, %875 ]
  %142 = load i64, ptr %51, align 8
  %143 = sdiv i64 %141, %142
  %144 = load i64, ptr %25, align 8
  %145 = mul i64 %144, %143
  %146 = getelementptr inbounds i64, ptr %24, i64 %145
  %147 = mul i64 %141, %45
  %148 = getelementptr inbounds i8, ptr %44, i64 %147
  %149 = load i64, ptr %27, align 8
  %150 = load i64, ptr %52, align 8
  switch i64 %149, label %526 [
    i64 0, label %151
    i64 1, label %276
    i64 2, label %401
  ]

151:
  switch i64 %150, label %245 [
    i64 1, label %152
    i64 2, label %183
    i64 4, label %214
  ]

152:
  br i1 %53, label %153, label %875

153:
  br i1 %108, label %722, label %154

154:
  %155 = phi i64 [ %180, %154 ], [ 0, %153 ]
  %156 = phi i64 [ %181, %154 ], [ 0, %153 ]
  %157 = getelementptr inbounds i8, ptr %140, i64 %155
  %158 = load i8, ptr %157, align 1
  %159 = getelementptr inbounds i64, ptr %146, i64 %155
  %160 = load i64, ptr %159, align 8
  %161 = getelementptr inbounds i8, ptr %139, i64 %160
  store i8 %158, ptr %161, align 1
  %162 = or i64 %155, 1
  %163 = getelementptr inbounds i8, ptr %140, i64 %162
  %164 = load i8, ptr %163, align 1
  %165 = getelementptr inbounds i64, ptr %146, i64 %162
  %166 = load i64, ptr %165, align 8
  %167 = getelementptr inbounds i8, ptr %139, i64 %166
  store i8 %164, ptr %167, align 1
  %168 = or i64 %155, 2
  %169 = getelementptr inbounds i8, ptr %140, i64 %168
  %170 = load i8, ptr %169, align 1
  %171 = getelementptr inbounds i64, ptr %146, i64 %168
  %172 = load i64, ptr %171, align 8
  %173 = getelementptr inbounds i8, ptr %139, i64 %172
  store i8 %170, ptr %173, align 1
  %174 = or i64 %155, 3
  %175 = getelementptr inbounds i8, ptr %140, i64 %174
  %176 = load i8, ptr %175, align 1
  %177 = getelementptr inbounds i64, ptr %146, i64 %174
  %178 = load i64, ptr %177, align 8
  %179 = getelementptr inbounds i8, ptr %139, i64 %178
  store i8 %176, ptr %179, align 1
  %180 = add i64 %155, 4
  %181 = add i64 %156, 4
  %182 = icmp eq i64 %181, %109
  br i1 %182, label %721, label %154

183:
  br i1 %53, label %184, label %875

184:
  br i1 %103, label %736, label %185

185:
  %186 = phi i64 [ %211, %185 ], [ 0, %184 ]
  %187 = phi i64 [ %212, %185 ], [ 0, %184 ]
  %188 = getelementptr inbounds i16, ptr %140, i64 %186
  %189 = load i16, ptr %188, align 1
  %190 = getelementptr inbounds i64, ptr %146, i64 %186
  %191 = load i64, ptr %190, align 8
  %192 = getelementptr inbounds i8, ptr %139, i64 %191
  store i16 %189, ptr %192, align 1
  %193 = or i64 %186, 1
  %194 = getelementptr inbounds i16, ptr %140, i64 %193
  %195 = load i16, ptr %194, align 1
  %196 = getelementptr inbounds i64, ptr %146, i64 %193
  %197 = load i64, ptr %196, align 8
  %198 = getelementptr inbounds i8, ptr %139, i64 %197
  store i16 %195, ptr %198, align 1
  %199 = or i64 %186, 2
  %200 = getelementptr inbounds i16, ptr %140, i64 %199
  %201 = load i16, ptr %200, align 1
  %202 = getelementptr inbounds i64, ptr %146, i64 %199
  %203 = load i64, ptr %202, align 8
  %204 = getelementptr inbounds i8, ptr %139, i64 %203
  store i16 %201, ptr %204, align 1
  %205 = or i64 %186, 3
  %206 = getelementptr inbounds i16, ptr %140, i64 %205
  %207 = load i16, ptr %206, align 1
  %208 = getelementptr inbounds i64, ptr %146, i64 %205
  %209 = load i64, ptr %208, align 8
  %210 = getelementptr inbounds i8, ptr %139, i64 %209
  store i16 %207, ptr %210, align 1
  %211 = add i64 %186, 4
  %212 = add i64 %187, 4
  %213 = icmp eq i64 %212, %104
  br i1 %213, label %735, label %185

214:
  br i1 %53, label %215, label %875

215:
  br i1 %98, label %750, label %216

216:
  %217 = phi i64 [ %242, %216 ], [ 0, %215 ]
  %218 = phi i64 [ %243, %216 ], [ 0, %215 ]
  %219 = getelementptr inbounds i32, ptr %140, i64 %217
  %220 = load i32, ptr %219, align 1
  %221 = getelementptr inbounds i64, ptr %146, i64 %217
  %222 = load i64, ptr %221, align 8
  %223 = getelementptr inbounds i8, ptr %139, i64 %222
  store i32 %220, ptr %223, align 1
  %224 = or i64 %217, 1
  %225 = getelementptr inbounds i32, ptr %140, i64 %224
  %226 = load i32, ptr %225, align 1
  %227 = getelementptr inbounds i64, ptr %146, i64 %224
  %228 = load i64, ptr %227, align 8
  %229 = getelementptr inbounds i8, ptr %139, i64 %228
  store i32 %226, ptr %229, align 1
  %230 = or i64 %217, 2
  %231 = getelementptr inbounds i32, ptr %140, i64 %230
  %232 = load i32, ptr %231, align 1
  %233 = getelementptr inbounds i64, ptr %146, i64 %230
  %234 = load i64, ptr %233, align 8
  %235 = getelementptr inbounds i8, ptr %139, i64 %234
  store i32 %232, ptr %235, align 1
  %236 = or i64 %217, 3
  %237 = getelementptr inbounds i32, ptr %140, i64 %236
  %238 = load i32, ptr %237, align 1
  %239 = getelementptr inbounds i64, ptr %146, i64 %236
  %240 = load i64, ptr %239, align 8
  %241 = getelementptr inbounds i8, ptr %139, i64 %240
  store i32 %238, ptr %241, align 1
  %242 = add i64 %217, 4
  %243 = add i64 %218, 4
  %244 = icmp eq i64 %243, %99
  br i1 %244, label %749, label %216

245:
  br i1 %53, label %246, label %875

246:
  br i1 %113, label %708, label %247

247:
  %248 = phi i64 [ %273, %247 ], [ 0, %246 ]
  %249 = phi i64 [ %274, %247 ], [ 0, %246 ]
  %250 = getelementptr inbounds i64, ptr %140, i64 %248
  %251 = load i64, ptr %250, align 1
  %252 = getelementptr inbounds i64, ptr %146, i64 %248
  %253 = load i64, ptr %252, align 8
  %254 = getelementptr inbounds i8, ptr %139, i64 %253
  store i64 %251, ptr %254, align 1
  %255 = or i64 %248, 1
  %256 = getelementptr inbounds i64, ptr %140, i64 %255
  %257 = load i64, ptr %256, align 1
  %258 = getelementptr inbounds i64, ptr %146, i64 %255
  %259 = load i64, ptr %258, align 8
  %260 = getelementptr inbounds i8, ptr %139, i64 %259
  store i64 %257, ptr %260, align 1
  %261 = or i64 %248, 2
  %262 = getelementptr inbounds i64, ptr %140, i64 %261
  %263 = load i64, ptr %262, align 1
  %264 = getelementptr inbounds i64, ptr %146, i64 %261
  %265 = load i64, ptr %264, align 8
  %266 = getelementptr inbounds i8, ptr %139, i64 %265
  store i64 %263, ptr %266, align 1
  %267 = or i64 %248, 3
  %268 = getelementptr inbounds i64, ptr %140, i64 %267
  %269 = load i64, ptr %268, align 1
  %270 = getelementptr inbounds i64, ptr %146, i64 %267
  %271 = load i64, ptr %270, align 8
  %272 = getelementptr inbounds i8, ptr %139, i64 %271
  store i64 %269, ptr %272, align 1
  %273 = add i64 %248, 4
  %274 = add i64 %249, 4
  %275 = icmp eq i64 %274, %114
  br i1 %275, label %707, label %247

276:
  switch i64 %150, label %370 [
    i64 1, label %277
    i64 2, label %308
    i64 4, label %339
  ]

277:
  br i1 %53, label %278, label %875

278:
  br i1 %88, label %778, label %279

279:
  %280 = phi i64 [ %305, %279 ], [ 0, %278 ]
  %281 = phi i64 [ %306, %279 ], [ 0, %278 ]
  %282 = getelementptr inbounds i64, ptr %146, i64 %280
  %283 = load i64, ptr %282, align 8
  %284 = getelementptr inbounds i8, ptr %139, i64 %283
  %285 = load i8, ptr %284, align 1
  %286 = getelementptr inbounds i8, ptr %140, i64 %280
  %287 = load i8, ptr %286, align 1
  %288 = getelementptr inbounds i8, ptr %148, i64 %280
  %289 = load i8, ptr %288, align 1
  %290 = icmp ne i8 %289, 0
  %291 = xor i1 %46, %290
  %292 = select i1 %291, i8 %287, i8 %285
  store i8 %292, ptr %284, align 1
  %293 = or i64 %280, 1
  %294 = getelementptr inbounds i64, ptr %146, i64 %293
  %295 = load i64, ptr %294, align 8
  %296 = getelementptr inbounds i8, ptr %139, i64 %295
  %297 = load i8, ptr %296, align 1
  %298 = getelementptr inbounds i8, ptr %140, i64 %293
  %299 = load i8, ptr %298, align 1
  %300 = getelementptr inbounds i8, ptr %148, i64 %293
  %301 = load i8, ptr %300, align 1
  %302 = icmp ne i8 %301, 0
  %303 = xor i1 %46, %302
  %304 = select i1 %303, i8 %299, i8 %297
  store i8 %304, ptr %296, align 1
  %305 = add i64 %280, 2
  %306 = add i64 %281, 2
  %307 = icmp eq i64 %306, %89
  br i1 %307, label %777, label %279

308:
  br i1 %53, label %309, label %875

309:
  br i1 %83, label %792, label %310

310:
  %311 = phi i64 [ %336, %310 ], [ 0, %309 ]
  %312 = phi i64 [ %337, %310 ], [ 0, %309 ]
  %313 = getelementptr inbounds i64, ptr %146, i64 %311
  %314 = load i64, ptr %313, align 8
  %315 = getelementptr inbounds i8, ptr %139, i64 %314
  %316 = load i16, ptr %315, align 1
  %317 = getelementptr inbounds i16, ptr %140, i64 %311
  %318 = load i16, ptr %317, align 1
  %319 = getelementptr inbounds i8, ptr %148, i64 %311
  %320 = load i8, ptr %319, align 1
  %321 = icmp ne i8 %320, 0
  %322 = xor i1 %46, %321
  %323 = select i1 %322, i16 %318, i16 %316
  store i16 %323, ptr %315, align 1
  %324 = or i64 %311, 1
  %325 = getelementptr inbounds i64, ptr %146, i64 %324
  %326 = load i64, ptr %325, align 8
  %327 = getelementptr inbounds i8, ptr %139, i64 %326
  %328 = load i16, ptr %327, align 1
  %329 = getelementptr inbounds i16, ptr %140, i64 %324
  %330 = load i16, ptr %329, align 1
  %331 = getelementptr inbounds i8, ptr %148, i64 %324
  %332 = load i8, ptr %331, align 1
  %333 = icmp ne i8 %332, 0
  %334 = xor i1 %46, %333
  %335 = select i1 %334, i16 %330, i16 %328
  store i16 %335, ptr %327, align 1
  %336 = add i64 %311, 2
  %337 = add i64 %312, 2
  %338 = icmp eq i64 %337, %84
  br i1 %338, label %791, label %310

339:
  br i1 %53, label %340, label %875

340:
  br i1 %78, label %806, label %341

341:
  %342 = phi i64 [ %367, %341 ], [ 0, %340 ]
  %343 = phi i64 [ %368, %341 ], [ 0, %340 ]
  %344 = getelementptr inbounds i64, ptr %146, i64 %342
  %345 = load i64, ptr %344, align 8
  %346 = getelementptr inbounds i8, ptr %139, i64 %345
  %347 = load i32, ptr %346, align 1
  %348 = getelementptr inbounds i32, ptr %140, i64 %342
  %349 = load i32, ptr %348, align 1
  %350 = getelementptr inbounds i8, ptr %148, i64 %342
  %351 = load i8, ptr %350, align 1
  %352 = icmp ne i8 %351, 0
  %353 = xor i1 %46, %352
  %354 = select i1 %353, i32 %349, i32 %347
  store i32 %354, ptr %346, align 1
  %355 = or i64 %342, 1
  %356 = getelementptr inbounds i64, ptr %146, i64 %355
  %357 = load i64, ptr %356, align 8
  %358 = getelementptr inbounds i8, ptr %139, i64 %357
  %359 = load i32, ptr %358, align 1
  %360 = getelementptr inbounds i32, ptr %140, i64 %355
  %361 = load i32, ptr %360, align 1
  %362 = getelementptr inbounds i8, ptr %148, i64 %355
  %363 = load i8, ptr %362, align 1
  %364 = icmp ne i8 %363, 0
  %365 = xor i1 %46, %364
  %366 = select i1 %365, i32 %361, i32 %359
  store i32 %366, ptr %358, align 1
  %367 = add i64 %342, 2
  %368 = add i64 %343, 2
  %369 = icmp eq i64 %368, %79
  br i1 %369, label %805, label %341

370:
  br i1 %53, label %371, label %875

371:
  br i1 %93, label %764, label %372

372:
  %373 = phi i64 [ %398, %372 ], [ 0, %371 ]
  %374 = phi i64 [ %399, %372 ], [ 0, %371 ]
  %375 = getelementptr inbounds i64, ptr %146, i64 %373
  %376 = load i64, ptr %375, align 8
  %377 = getelementptr inbounds i8, ptr %139, i64 %376
  %378 = load i64, ptr %377, align 1
  %379 = getelementptr inbounds i64, ptr %140, i64 %373
  %380 = load i64, ptr %379, align 1
  %381 = getelementptr inbounds i8, ptr %148, i64 %373
  %382 = load i8, ptr %381, align 1
  %383 = icmp ne i8 %382, 0
  %384 = xor i1 %46, %383
  %385 = select i1 %384, i64 %380, i64 %378
  store i64 %385, ptr %377, align 1
  %386 = or i64 %373, 1
  %387 = getelementptr inbounds i64, ptr %146, i64 %386
  %388 = load i64, ptr %387, align 8
  %389 = getelementptr inbounds i8, ptr %139, i64 %388
  %390 = load i64, ptr %389, align 1
  %391 = getelementptr inbounds i64, ptr %140, i64 %386
  %392 = load i64, ptr %391, align 1
  %393 = getelementptr inbounds i8, ptr %148, i64 %386
  %394 = load i8, ptr %393, align 1
  %395 = icmp ne i8 %394, 0
  %396 = xor i1 %46, %395
  %397 = select i1 %396, i64 %392, i64 %390
  store i64 %397, ptr %389, align 1
  %398 = add i64 %373, 2
  %399 = add i64 %374, 2
  %400 = icmp eq i64 %399, %94
  br i1 %400, label %763, label %372

401:
  switch i64 %150, label %495 [
    i64 1, label %402
    i64 2, label %433
    i64 4, label %464
  ]

402:
  br i1 %53, label %403, label %875

403:
  br i1 %68, label %834, label %404

404:
  %405 = phi i64 [ %430, %404 ], [ 0, %403 ]
  %406 = phi i64 [ %431, %404 ], [ 0, %403 ]
  %407 = getelementptr inbounds i64, ptr %146, i64 %405
  %408 = load i64, ptr %407, align 8
  %409 = getelementptr inbounds i8, ptr %139, i64 %408
  %410 = load i8, ptr %409, align 1
  %411 = getelementptr inbounds i8, ptr %140, i64 %405
  %412 = load i8, ptr %411, align 1
  %413 = getelementptr inbounds i16, ptr %148, i64 %405
  %414 = load i16, ptr %413, align 1
  %415 = icmp ne i16 %414, 0
  %416 = xor i1 %46, %415
  %417 = select i1 %416, i8 %412, i8 %410
  store i8 %417, ptr %409, align 1
  %418 = or i64 %405, 1
  %419 = getelementptr inbounds i64, ptr %146, i64 %418
  %420 = load i64, ptr %419, align 8
  %421 = getelementptr inbounds i8, ptr %139, i64 %420
  %422 = load i8, ptr %421, align 1
  %423 = getelementptr inbounds i8, ptr %140, i64 %418
  %424 = load i8, ptr %423, align 1
  %425 = getelementptr inbounds i16, ptr %148, i64 %418
  %426 = load i16, ptr %425, align 1
  %427 = icmp ne i16 %426, 0
  %428 = xor i1 %46, %427
  %429 = select i1 %428, i8 %424, i8 %422
  store i8 %429, ptr %421, align 1
  %430 = add i64 %405, 2
  %431 = add i64 %406, 2
  %432 = icmp eq i64 %431, %69
  br i1 %432, label %833, label %404

433:
  br i1 %53, label %434, label %875

434:
  br i1 %63, label %848, label %435

435:
  %436 = phi i64 [ %461, %435 ], [ 0, %434 ]
  %437 = phi i64 [ %462, %435 ], [ 0, %434 ]
  %438 = getelementptr inbounds i64, ptr %146, i64 %436
  %439 = load i64, ptr %438, align 8
  %440 = getelementptr inbounds i8, ptr %139, i64 %439
  %441 = load i16, ptr %440, align 1
  %442 = getelementptr inbounds i16, ptr %140, i64 %436
  %443 = load i16, ptr %442, align 1
  %444 = getelementptr inbounds i16, ptr %148, i64 %436
  %445 = load i16, ptr %444, align 1
  %446 = icmp ne i16 %445, 0
  %447 = xor i1 %46, %446
  %448 = select i1 %447, i16 %443, i16 %441
  store i16 %448, ptr %440, align 1
  %449 = or i64 %436, 1
  %450 = getelementptr inbounds i64, ptr %146, i64 %449
  %451 = load i64, ptr %450, align 8
  %452 = getelementptr inbounds i8, ptr %139, i64 %451
  %453 = load i16, ptr %452, align 1
  %454 = getelementptr inbounds i16, ptr %140, i64 %449
  %455 = load i16, ptr %454, align 1
  %456 = getelementptr inbounds i16, ptr %148, i64 %449
  %457 = load i16, ptr %456, align 1
  %458 = icmp ne i16 %457, 0
  %459 = xor i1 %46, %458
  %460 = select i1 %459, i16 %455, i16 %453
  store i16 %460, ptr %452, align 1
  %461 = add i64 %436, 2
  %462 = add i64 %437, 2
  %463 = icmp eq i64 %462, %64
  br i1 %463, label %847, label %435

464:
  br i1 %53, label %465, label %875

465:
  br i1 %58, label %862, label %466

466:
  %467 = phi i64 [ %492, %466 ], [ 0, %465 ]
  %468 = phi i64 [ %493, %466 ], [ 0, %465 ]
  %469 = getelementptr inbounds i64, ptr %146, i64 %467
  %470 = load i64, ptr %469, align 8
  %471 = getelementptr inbounds i8, ptr %139, i64 %470
  %472 = load i32, ptr %471, align 1
  %473 = getelementptr inbounds i32, ptr %140, i64 %467
  %474 = load i32, ptr %473, align 1
  %475 = getelementptr inbounds i16, ptr %148, i64 %467
  %476 = load i16, ptr %475, align 1
  %477 = icmp ne i16 %476, 0
  %478 = xor i1 %46, %477
  %479 = select i1 %478, i32 %474, i32 %472
  store i32 %479, ptr %471, align 1
  %480 = or i64 %467, 1
  %481 = getelementptr inbounds i64, ptr %146, i64 %480
  %482 = load i64, ptr %481, align 8
  %483 = getelementptr inbounds i8, ptr %139, i64 %482
  %484 = load i32, ptr %483, align 1
  %485 = getelementptr inbounds i32, ptr %140, i64 %480
  %486 = load i32, ptr %485, align 1
  %487 = getelementptr inbounds i16, ptr %148, i64 %480
  %488 = load i16, ptr %487, align 1
  %489 = icmp ne i16 %488, 0
  %490 = xor i1 %46, %489
  %491 = select i1 %490, i32 %486, i32 %484
  store i32 %491, ptr %483, align 1
  %492 = add i64 %467, 2
  %493 = add i64 %468, 2
  %494 = icmp eq i64 %493, %59
  br i1 %494, label %861, label %466

495:
  br i1 %53, label %496, label %875

496:
  br i1 %73, label %820, label %497

497:
  %498 = phi i64 [ %523, %497 ], [ 0, %496 ]
  %499 = phi i64 [ %524, %497 ], [ 0, %496 ]
  %500 = getelementptr inbounds i64, ptr %146, i64 %498
  %501 = load i64, ptr %500, align 8
  %502 = getelementptr inbounds i8, ptr %139, i64 %501
  %503 = load i64, ptr %502, align 1
  %504 = getelementptr inbounds i64, ptr %140, i64 %498
  %505 = load i64, ptr %504, align 1
  %506 = getelementptr inbounds i16, ptr %148, i64 %498
  %507 = load i16, ptr %506, align 1
  %508 = icmp ne i16 %507, 0
  %509 = xor i1 %46, %508
  %510 = select i1 %509, i64 %505, i64 %503
  store i64 %510, ptr %502, align 1
  %511 = or i64 %498, 1
  %512 = getelementptr inbounds i64, ptr %146, i64 %511
  %513 = load i64, ptr %512, align 8
  %514 = getelementptr inbounds i8, ptr %139, i64 %513
  %515 = load i64, ptr %514, align 1
  %516 = getelementptr inbounds i64, ptr %140, i64 %511
  %517 = load i64, ptr %516, align 1
  %518 = getelementptr inbounds i16, ptr %148, i64 %511
  %519 = load i16, ptr %518, align 1
  %520 = icmp ne i16 %519, 0
  %521 = xor i1 %46, %520
  %522 = select i1 %521, i64 %517, i64 %515
  store i64 %522, ptr %514, align 1
  %523 = add i64 %498, 2
  %524 = add i64 %499, 2
  %525 = icmp eq i64 %524, %74
  br i1 %525, label %819, label %497

526:
  switch i64 %150, label %620 [
    i64 1, label %527
    i64 2, label %558
    i64 4, label %589
  ]

527:
  br i1 %53, label %528, label %875

528:
  br i1 %128, label %666, label %529

529:
  %530 = phi i64 [ %555, %529 ], [ 0, %528 ]
  %531 = phi i64 [ %556, %529 ], [ 0, %528 ]
  %532 = getelementptr inbounds i64, ptr %146, i64 %530
  %533 = load i64, ptr %532, align 8
  %534 = getelementptr inbounds i8, ptr %139, i64 %533
  %535 = load i8, ptr %534, align 1
  %536 = getelementptr inbounds i8, ptr %140, i64 %530
  %537 = load i8, ptr %536, align 1
  %538 = getelementptr inbounds i32, ptr %148, i64 %530
  %539 = load i32, ptr %538, align 1
  %540 = icmp ne i32 %539, 0
  %541 = xor i1 %46, %540
  %542 = select i1 %541, i8 %537, i8 %535
  store i8 %542, ptr %534, align 1
  %543 = or i64 %530, 1
  %544 = getelementptr inbounds i64, ptr %146, i64 %543
  %545 = load i64, ptr %544, align 8
  %546 = getelementptr inbounds i8, ptr %139, i64 %545
  %547 = load i8, ptr %546, align 1
  %548 = getelementptr inbounds i8, ptr %140, i64 %543
  %549 = load i8, ptr %548, align 1
  %550 = getelementptr inbounds i32, ptr %148, i64 %543
  %551 = load i32, ptr %550, align 1
  %552 = icmp ne i32 %551, 0
  %553 = xor i1 %46, %552
  %554 = select i1 %553, i8 %549, i8 %547
  store i8 %554, ptr %546, align 1
  %555 = add i64 %530, 2
  %556 = add i64 %531, 2
  %557 = icmp eq i64 %556, %129
  br i1 %557, label %665, label %529

558:
  br i1 %53, label %559, label %875

559:
  br i1 %123, label %680, label %560

560:
  %561 = phi i64 [ %586, %560 ], [ 0, %559 ]
  %562 = phi i64 [ %587, %560 ], [ 0, %559 ]
  %563 = getelementptr inbounds i64, ptr %146, i64 %561
  %564 = load i64, ptr %563, align 8
  %565 = getelementptr inbounds i8, ptr %139, i64 %564
  %566 = load i16, ptr %565, align 1
  %567 = getelementptr inbounds i16, ptr %140, i64 %561
  %568 = load i16, ptr %567, align 1
  %569 = getelementptr inbounds i32, ptr %148, i64 %561
  %570 = load i32, ptr %569, align 1
  %571 = icmp ne i32 %570, 0
  %572 = xor i1 %46, %571
  %573 = select i1 %572, i16 %568, i16 %566
  store i16 %573, ptr %565, align 1
  %574 = or i64 %561, 1
  %575 = getelementptr inbounds i64, ptr %146, i64 %574
  %576 = load i64, ptr %575, align 8
  %577 = getelementptr inbounds i8, ptr %139, i64 %576
  %578 = load i16, ptr %577, align 1
  %579 = getelementptr inbounds i16, ptr %140, i64 %574
  %580 = load i16, ptr %579, align 1
  %581 = getelementptr inbounds i32, ptr %148, i64 %574
  %582 = load i32, ptr %581, align 1
  %583 = icmp ne i32 %582, 0
  %584 = xor i1 %46, %583
  %585 = select i1 %584, i16 %580, i16 %578
  store i16 %585, ptr %577, align 1
  %586 = add i64 %561, 2
  %587 = add i64 %562, 2
  %588 = icmp eq i64 %587, %124
  br i1 %588, label %679, label %560

589:
  br i1 %53, label %590, label %875

590:
  br i1 %118, label %694, label %591

591:
  %592 = phi i64 [ %617, %591 ], [ 0, %590 ]
  %593 = phi i64 [ %618, %591 ], [ 0, %590 ]
  %594 = getelementptr inbounds i64, ptr %146, i64 %592
  %595 = load i64, ptr %594, align 8
  %596 = getelementptr inbounds i8, ptr %139, i64 %595
  %597 = load i32, ptr %596, align 1
  %598 = getelementptr inbounds i32, ptr %140, i64 %592
  %599 = load i32, ptr %598, align 1
  %600 = getelementptr inbounds i32, ptr %148, i64 %592
  %601 = load i32, ptr %600, align 1
  %602 = icmp ne i32 %601, 0
  %603 = xor i1 %46, %602
  %604 = select i1 %603, i32 %599, i32 %597
  store i32 %604, ptr %596, align 1
  %605 = or i64 %592, 1
  %606 = getelementptr inbounds i64, ptr %146, i64 %605
  %607 = load i64, ptr %606, align 8
  %608 = getelementptr inbounds i8, ptr %139, i64 %607
  %609 = load i32, ptr %608, align 1
  %610 = getelementptr inbounds i32, ptr %140, i64 %605
  %611 = load i32, ptr %610, align 1
  %612 = getelementptr inbounds i32, ptr %148, i64 %605
  %613 = load i32, ptr %612, align 1
  %614 = icmp ne i32 %613, 0
  %615 = xor i1 %46, %614
  %616 = select i1 %615, i32 %611, i32 %609
  store i32 %616, ptr %608, align 1
  %617 = add i64 %592, 2
  %618 = add i64 %593, 2
  %619 = icmp eq i64 %618, %119
  br i1 %619, label %693, label %591

620:
  br i1 %53, label %621, label %875

621:
  br i1 %133, label %652, label %622

622:
  %623 = phi i64 [ %648, %622 ], [ 0, %621 ]
  %624 = phi i64 [ %649, %622 ], [ 0, %621 ]
  %625 = getelementptr inbounds i64, ptr %146, i64 %623
  %626 = load i64, ptr %625, align 8
  %627 = getelementptr inbounds i8, ptr %139, i64 %626
  %628 = load i64, ptr %627, align 1
  %629 = getelementptr inbounds i64, ptr %140, i64 %623
  %630 = load i64, ptr %629, align 1
  %631 = getelementptr inbounds i32, ptr %148, i64 %623
  %632 = load i32, ptr %631, align 1
  %633 = icmp ne i32 %632, 0
  %634 = xor i1 %46, %633
  %635 = select i1 %634, i64 %630, i64 %628
  store i64 %635, ptr %627, align 1
  %636 = or i64 %623, 1
  %637 = getelementptr inbounds i64, ptr %146, i64 %636
  %638 = load i64, ptr %637, align 8
  %639 = getelementptr inbounds i8, ptr %139, i64 %638
  %640 = load i64, ptr %639, align 1
  %641 = getelementptr inbounds i64, ptr %140, i64 %636
  %642 = load i64, ptr %641, align 1
  %643 = getelementptr inbounds i32, ptr %148, i64 %636
  %644 = load i32, ptr %643, align 1
  %645 = icmp ne i32 %644, 0
  %646 = xor i1 %46, %645
  %647 = select i1 %646, i64 %642, i64 %640
  store i64 %647, ptr %639, align 1
  %648 = add i64 %623, 2
  %649 = add i64 %624, 2
  %650 = icmp eq i64 %649, %134
  br i1 %650, label %651, label %622

651:
  br i1 %135, label %875, label %652

652:
  %653 = phi i64 [ 0, %621 ], [ %648, %651 ]
  tail call void @llvm.assume(i1 %136)
  %654 = getelementptr inbounds i64, ptr %146, i64 %653
  %655 = load i64, ptr %654, align 8
  %656 = getelementptr inbounds i8, ptr %139, i64 %655
  %657 = load i64, ptr %656, align 1
  %658 = getelementptr inbounds i64, ptr %140, i64 %653
  %659 = load i64, ptr %658, align 1
  %660 = getelementptr inbounds i32, ptr %148, i64 %653
  %661 = load i32, ptr %660, align 1
  %662 = icmp ne i32 %661, 0
  %663 = xor i1 %46, %662
  %664 = select i1 %663, i64 %659, i64 %657
  store i64 %664, ptr %656, align 1
  br label %875

665:
  br i1 %130, label %875, label %666

666:
  %667 = phi i64 [ 0, %528 ], [ %555, %665 ]
  tail call void @llvm.assume(i1 %131)
  %668 = getelementptr inbounds i64, ptr %146, i64 %667
  %669 = load i64, ptr %668, align 8
  %670 = getelementptr inbounds i8, ptr %139, i64 %669
  %671 = load i8, ptr %670, align 1
  %672 = getelementptr inbounds i8, ptr %140, i64 %667
  %673 = load i8, ptr %672, align 1
  %674 = getelementptr inbounds i32, ptr %148, i64 %667
  %675 = load i32, ptr %674, align 1
  %676 = icmp ne i32 %675, 0
  %677 = xor i1 %46, %676
  %678 = select i1 %677, i8 %673, i8 %671
  store i8 %678, ptr %670, align 1
  br label %875

679:
  br i1 %125, label %875, label %680

680:
  %681 = phi i64 [ 0, %559 ], [ %586, %679 ]
  tail call void @llvm.assume(i1 %126)
  %682 = getelementptr inbounds i64, ptr %146, i64 %681
  %683 = load i64, ptr %682, align 8
  %684 = getelementptr inbounds i8, ptr %139, i64 %683
  %685 = load i16, ptr %684, align 1
  %686 = getelementptr inbounds i16, ptr %140, i64 %681
  %687 = load i16, ptr %686, align 1
  %688 = getelementptr inbounds i32, ptr %148, i64 %681
  %689 = load i32, ptr %688, align 1
  %690 = icmp ne i32 %689, 0
  %691 = xor i1 %46, %690
  %692 = select i1 %691, i16 %687, i16 %685
  store i16 %692, ptr %684, align 1
  br label %875

693:
  br i1 %120, label %875, label %694

694:
  %695 = phi i64 [ 0, %590 ], [ %617, %693 ]
  tail call void @llvm.assume(i1 %121)
  %696 = getelementptr inbounds i64, ptr %146, i64 %695
  %697 = load i64, ptr %696, align 8
  %698 = getelementptr inbounds i8, ptr %139, i64 %697
  %699 = load i32, ptr %698, align 1
  %700 = getelementptr inbounds i32, ptr %140, i64 %695
  %701 = load i32, ptr %700, align 1
  %702 = getelementptr inbounds i32, ptr %148, i64 %695
  %703 = load i32, ptr %702, align 1
  %704 = icmp ne i32 %703, 0
  %705 = xor i1 %46, %704
  %706 = select i1 %705, i32 %701, i32 %699
  store i32 %706, ptr %698, align 1
  br label %875

707:
  br i1 %115, label %875, label %708

708:
  %709 = phi i64 [ 0, %246 ], [ %273, %707 ]
  tail call void @llvm.assume(i1 %116)
  br label %710

710:
  %711 = phi i64 [ %718, %710 ], [ %709, %708 ]
  %712 = phi i64 [ %719, %710 ], [ 0, %708 ]
  %713 = getelementptr inbounds i64, ptr %140, i64 %711
  %714 = load i64, ptr %713, align 1
  %715 = getelementptr inbounds i64, ptr %146, i64 %711
  %716 = load i64, ptr %715, align 8
  %717 = getelementptr inbounds i8, ptr %139, i64 %716
  store i64 %714, ptr %717, align 1
  %718 = add i64 %711, 1
  %719 = add i64 %712, 1
  %720 = icmp eq i64 %719, %112
  br i1 %720, label %875, label %710

721:
  br i1 %110, label %875, label %722

722:
  %723 = phi i64 [ 0, %153 ], [ %180, %721 ]
  tail call void @llvm.assume(i1 %111)
  br label %724

724:
  %725 = phi i64 [ %732, %724 ], [ %723, %722 ]
  %726 = phi i64 [ %733, %724 ], [ 0, %722 ]
  %727 = getelementptr inbounds i8, ptr %140, i64 %725
  %728 = load i8, ptr %727, align 1
  %729 = getelementptr inbounds i64, ptr %146, i64 %725
  %730 = load i64, ptr %729, align 8
  %731 = getelementptr inbounds i8, ptr %139, i64 %730
  store i8 %728, ptr %731, align 1
  %732 = add i64 %725, 1
  %733 = add i64 %726, 1
  %734 = icmp eq i64 %733, %107
  br i1 %734, label %875, label %724

735:
  br i1 %105, label %875, label %736

736:
  %737 = phi i64 [ 0, %184 ], [ %211, %735 ]
  tail call void @llvm.assume(i1 %106)
  br label %738

738:
  %739 = phi i64 [ %746, %738 ], [ %737, %736 ]
  %740 = phi i64 [ %747, %738 ], [ 0, %736 ]
  %741 = getelementptr inbounds i16, ptr %140, i64 %739
  %742 = load i16, ptr %741, align 1
  %743 = getelementptr inbounds i64, ptr %146, i64 %739
  %744 = load i64, ptr %743, align 8
  %745 = getelementptr inbounds i8, ptr %139, i64 %744
  store i16 %742, ptr %745, align 1
  %746 = add i64 %739, 1
  %747 = add i64 %740, 1
  %748 = icmp eq i64 %747, %102
  br i1 %748, label %875, label %738

749:
  br i1 %100, label %875, label %750

750:
  %751 = phi i64 [ 0, %215 ], [ %242, %749 ]
  tail call void @llvm.assume(i1 %101)
  br label %752

752:
  %753 = phi i64 [ %760, %752 ], [ %751, %750 ]
  %754 = phi i64 [ %761, %752 ], [ 0, %750 ]
  %755 = getelementptr inbounds i32, ptr %140, i64 %753
  %756 = load i32, ptr %755, align 1
  %757 = getelementptr inbounds i64, ptr %146, i64 %753
  %758 = load i64, ptr %757, align 8
  %759 = getelementptr inbounds i8, ptr %139, i64 %758
  store i32 %756, ptr %759, align 1
  %760 = add i64 %753, 1
  %761 = add i64 %754, 1
  %762 = icmp eq i64 %761, %97
  br i1 %762, label %875, label %752

763:
  br i1 %95, label %875, label %764

764:
  %765 = phi i64 [ 0, %371 ], [ %398, %763 ]
  tail call void @llvm.assume(i1 %96)
  %766 = getelementptr inbounds i64, ptr %146, i64 %765
  %767 = load i64, ptr %766, align 8
  %768 = getelementptr inbounds i8, ptr %139, i64 %767
  %769 = load i64, ptr %768, align 1
  %770 = getelementptr inbounds i64, ptr %140, i64 %765
  %771 = load i64, ptr %770, align 1
  %772 = getelementptr inbounds i8, ptr %148, i64 %765
  %773 = load i8, ptr %772, align 1
  %774 = icmp ne i8 %773, 0
  %775 = xor i1 %46, %774
  %776 = select i1 %775, i64 %771, i64 %769
  store i64 %776, ptr %768, align 1
  br label %875

777:
  br i1 %90, label %875, label %778

778:
  %779 = phi i64 [ 0, %278 ], [ %305, %777 ]
  tail call void @llvm.assume(i1 %91)
  %780 = getelementptr inbounds i64, ptr %146, i64 %779
  %781 = load i64, ptr %780, align 8
  %782 = getelementptr inbounds i8, ptr %139, i64 %781
  %783 = load i8, ptr %782, align 1
  %784 = getelementptr inbounds i8, ptr %140, i64 %779
  %785 = load i8, ptr %784, align 1
  %786 = getelementptr inbounds i8, ptr %148, i64 %779
  %787 = load i8, ptr %786, align 1
  %788 = icmp ne i8 %787, 0
  %789 = xor i1 %46, %788
  %790 = select i1 %789, i8 %785, i8 %783
  store i8 %790, ptr %782, align 1
  br label %875

791:
  br i1 %85, label %875, label %792

792:
  %793 = phi i64 [ 0, %309 ], [ %336, %791 ]
  tail call void @llvm.assume(i1 %86)
  %794 = getelementptr inbounds i64, ptr %146, i64 %793
  %795 = load i64, ptr %794, align 8
  %796 = getelementptr inbounds i8, ptr %139, i64 %795
  %797 = load i16, ptr %796, align 1
  %798 = getelementptr inbounds i16, ptr %140, i64 %793
  %799 = load i16, ptr %798, align 1
  %800 = getelementptr inbounds i8, ptr %148, i64 %793
  %801 = load i8, ptr %800, align 1
  %802 = icmp ne i8 %801, 0
  %803 = xor i1 %46, %802
  %804 = select i1 %803, i16 %799, i16 %797
  store i16 %804, ptr %796, align 1
  br label %875

805:
  br i1 %80, label %875, label %806

806:
  %807 = phi i64 [ 0, %340 ], [ %367, %805 ]
  tail call void @llvm.assume(i1 %81)
  %808 = getelementptr inbounds i64, ptr %146, i64 %807
  %809 = load i64, ptr %808, align 8
  %810 = getelementptr inbounds i8, ptr %139, i64 %809
  %811 = load i32, ptr %810, align 1
  %812 = getelementptr inbounds i32, ptr %140, i64 %807
  %813 = load i32, ptr %812, align 1
  %814 = getelementptr inbounds i8, ptr %148, i64 %807
  %815 = load i8, ptr %814, align 1
  %816 = icmp ne i8 %815, 0
  %817 = xor i1 %46, %816
  %818 = select i1 %817, i32 %813, i32 %811
  store i32 %818, ptr %810, align 1
  br label %875

819:
  br i1 %75, label %875, label %820

820:
  %821 = phi i64 [ 0, %496 ], [ %523, %819 ]
  tail call void @llvm.assume(i1 %76)
  %822 = getelementptr inbounds i64, ptr %146, i64 %821
  %823 = load i64, ptr %822, align 8
  %824 = getelementptr inbounds i8, ptr %139, i64 %823
  %825 = load i64, ptr %824, align 1
  %826 = getelementptr inbounds i64, ptr %140, i64 %821
  %827 = load i64, ptr %826, align 1
  %828 = getelementptr inbounds i16, ptr %148, i64 %821
  %829 = load i16, ptr %828, align 1
  %830 = icmp ne i16 %829, 0
  %831 = xor i1 %46, %830
  %832 = select i1 %831, i64 %827, i64 %825
  store i64 %832, ptr %824, align 1
  br label %875

833:
  br i1 %70, label %875, label %834

834:
  %835 = phi i64 [ 0, %403 ], [ %430, %833 ]
  tail call void @llvm.assume(i1 %71)
  %836 = getelementptr inbounds i64, ptr %146, i64 %835
  %837 = load i64, ptr %836, align 8
  %838 = getelementptr inbounds i8, ptr %139, i64 %837
  %839 = load i8, ptr %838, align 1
  %840 = getelementptr inbounds i8, ptr %140, i64 %835
  %841 = load i8, ptr %840, align 1
  %842 = getelementptr inbounds i16, ptr %148, i64 %835
  %843 = load i16, ptr %842, align 1
  %844 = icmp ne i16 %843, 0
  %845 = xor i1 %46, %844
  %846 = select i1 %845, i8 %841, i8 %839
  store i8 %846, ptr %838, align 1
  br label %875

847:
  br i1 %65, label %875, label %848

848:
  %849 = phi i64 [ 0, %434 ], [ %461, %847 ]
  tail call void @llvm.assume(i1 %66)
  %850 = getelementptr inbounds i64, ptr %146, i64 %849
  %851 = load i64, ptr %850, align 8
  %852 = getelementptr inbounds i8, ptr %139, i64 %851
  %853 = load i16, ptr %852, align 1
  %854 = getelementptr inbounds i16, ptr %140, i64 %849
  %855 = load i16, ptr %854, align 1
  %856 = getelementptr inbounds i16, ptr %148, i64 %849
  %857 = load i16, ptr %856, align 1
  %858 = icmp ne i16 %857, 0
  %859 = xor i1 %46, %858
  %860 = select i1 %859, i16 %855, i16 %853
  store i16 %860, ptr %852, align 1
  br label %875

861:
  br i1 %60, label %875, label %862

862:
  %863 = phi i64 [ 0, %465 ], [ %492, %861 ]
  tail call void @llvm.assume(i1 %61)
  %864 = getelementptr inbounds i64, ptr %146, i64 %863
  %865 = load i64, ptr %864, align 8
  %866 = getelementptr inbounds i8, ptr %139, i64 %865
  %867 = load i32, ptr %866, align 1
  %868 = getelementptr inbounds i32, ptr %140, i64 %863
  %869 = load i32, ptr %868, align 1
  %870 = getelementptr inbounds i16, ptr %148, i64 %863
  %871 = load i16, ptr %870, align 1
  %872 = icmp ne i16 %871, 0
  %873 = xor i1 %46, %872
  %874 = select i1 %873, i32 %869, i32 %867
  store i32 %874, ptr %866, align 1
  br label %875

875:
  %876 = add i64 %141, 1
  %877 = load i64, ptr %54, align 8
  %878 = getelementptr inbounds i8, ptr %139, i64 %877
  %879 = load i64, ptr %55, align 8
  %880 = getelementptr inbounds i8, ptr %140, i64 %879
  %881 = load i64, ptr %47, align 8
  %882 = icmp slt i64 %876, %881
  br i1 %882, label %138, label %137
}

declare void @llvm.assume(i1)
