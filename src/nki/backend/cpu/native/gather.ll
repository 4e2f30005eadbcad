; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 45d06c817af21afac09da1a19fc444daa279895774adb9869814a3e3d5c98752

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
  %36 = phi ptr [ %28, %15 ], [ %349, %346 ]
  %37 = phi i64 [ 0, %15 ], [ %347, %346 ]
  %38 = phi ptr [ %22, %15 ], [ %351, %346 ]
  %39 = load i64, ptr %29, align 8
  %40 = sdiv i64 %37, %39
  %41 = load i64, ptr %30, align 8
  %42 = mul i64 %41, %40
  %43 = getelementptr inbounds i64, ptr %11, i64 %42
  %44 = load i64, ptr %31, align 8
  %45 = icmp sgt i64 %41, 0
  switch i64 %44, label %223 [
    i64 1, label %46
    i64 2, label %105
    i64 4, label %164
  ]

46:
  br i1 %45, label %47, label %346

47:
  %48 = and i64 %41, 7
  %49 = icmp ult i64 %41, 8
  br i1 %49, label %300, label %50

50:
  %51 = and i64 %41, 9223372036854775800
  br label %52

52:
  %53 = phi i64 [ 0, %50 ], [ %102, %52 ]
  %54 = phi i64 [ 0, %50 ], [ %103, %52 ]
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
  %78 = or i64 %53, 4
  %79 = getelementptr inbounds i64, ptr %43, i64 %78
  %80 = load i64, ptr %79, align 8
  %81 = getelementptr inbounds i8, ptr %36, i64 %80
  %82 = load i8, ptr %81, align 1
  %83 = getelementptr inbounds i8, ptr %38, i64 %78
  store i8 %82, ptr %83, align 1
  %84 = or i64 %53, 5
  %85 = getelementptr inbounds i64, ptr %43, i64 %84
  %86 = load i64, ptr %85, align 8
  %87 = getelementptr inbounds i8, ptr %36, i64 %86
  %88 = load i8, ptr %87, align 1
  %89 = getelementptr inbounds i8, ptr %38, i64 %84
  store i8 %88, ptr %89, align 1
  %90 = or i64 %53, 6
  %91 = getelementptr inbounds i64, ptr %43, i64 %90
  %92 = load i64, ptr %91, align 8
  %93 = getelementptr inbounds i8, ptr %36, i64 %92
  %94 = load i8, ptr %93, align 1
  %95 = getelementptr inbounds i8, ptr %38, i64 %90
  store i8 %94, ptr %95, align 1
  %96 = or i64 %53, 7
  %97 = getelementptr inbounds i64, ptr %43, i64 %96
  %98 = load i64, ptr %97, align 8
  %99 = getelementptr inbounds i8, ptr %36, i64 %98
  %100 = load i8, ptr %99, align 1
  %101 = getelementptr inbounds i8, ptr %38, i64 %96
  store i8 %100, ptr %101, align 1
  %102 = add i64 %53, 8
  %103 = add i64 %54, 8
  %104 = icmp eq i64 %103, %51
  br i1 %104, label %298, label %52

105:
  br i1 %45, label %106, label %346

106:
  %107 = and i64 %41, 7
  %108 = icmp ult i64 %41, 8
  br i1 %108, label %316, label %109

109:
  %110 = and i64 %41, 9223372036854775800
  br label %111

111:
  %112 = phi i64 [ 0, %109 ], [ %161, %111 ]
  %113 = phi i64 [ 0, %109 ], [ %162, %111 ]
  %114 = getelementptr inbounds i64, ptr %43, i64 %112
  %115 = load i64, ptr %114, align 8
  %116 = getelementptr inbounds i8, ptr %36, i64 %115
  %117 = load i16, ptr %116, align 1
  %118 = getelementptr inbounds i16, ptr %38, i64 %112
  store i16 %117, ptr %118, align 1
  %119 = or i64 %112, 1
  %120 = getelementptr inbounds i64, ptr %43, i64 %119
  %121 = load i64, ptr %120, align 8
  %122 = getelementptr inbounds i8, ptr %36, i64 %121
  %123 = load i16, ptr %122, align 1
  %124 = getelementptr inbounds i16, ptr %38, i64 %119
  store i16 %123, ptr %124, align 1
  %125 = or i64 %112, 2
  %126 = getelementptr inbounds i64, ptr %43, i64 %125
  %127 = load i64, ptr %126, align 8
  %128 = getelementptr inbounds i8, ptr %36, i64 %127
  %129 = load i16, ptr %128, align 1
  %130 = getelementptr inbounds i16, ptr %38, i64 %125
  store i16 %129, ptr %130, align 1
  %131 = or i64 %112, 3
  %132 = getelementptr inbounds i64, ptr %43, i64 %131
  %133 = load i64, ptr %132, align 8
  %134 = getelementptr inbounds i8, ptr %36, i64 %133
  %135 = load i16, ptr %134, align 1
  %136 = getelementptr inbounds i16, ptr %38, i64 %131
  store i16 %135, ptr %136, align 1
  %137 = or i64 %112, 4
  %138 = getelementptr inbounds i64, ptr %43, i64 %137
  %139 = load i64, ptr %138, align 8
  %140 = getelementptr inbounds i8, ptr %36, i64 %139
  %141 = load i16, ptr %140, align 1
  %142 = getelementptr inbounds i16, ptr %38, i64 %137
  store i16 %141, ptr %142, align 1
  %143 = or i64 %112, 5
  %144 = getelementptr inbounds i64, ptr %43, i64 %143
  %145 = load i64, ptr %144, align 8
  %146 = getelementptr inbounds i8, ptr %36, i64 %145
  %147 = load i16, ptr %146, align 1
  %148 = getelementptr inbounds i16, ptr %38, i64 %143
  store i16 %147, ptr %148, align 1
  %149 = or i64 %112, 6
  %150 = getelementptr inbounds i64, ptr %43, i64 %149
  %151 = load i64, ptr %150, align 8
  %152 = getelementptr inbounds i8, ptr %36, i64 %151
  %153 = load i16, ptr %152, align 1
  %154 = getelementptr inbounds i16, ptr %38, i64 %149
  store i16 %153, ptr %154, align 1
  %155 = or i64 %112, 7
  %156 = getelementptr inbounds i64, ptr %43, i64 %155
  %157 = load i64, ptr %156, align 8
  %158 = getelementptr inbounds i8, ptr %36, i64 %157
  %159 = load i16, ptr %158, align 1
  %160 = getelementptr inbounds i16, ptr %38, i64 %155
  store i16 %159, ptr %160, align 1
  %161 = add i64 %112, 8
  %162 = add i64 %113, 8
  %163 = icmp eq i64 %162, %110
  br i1 %163, label %314, label %111

164:
  br i1 %45, label %165, label %346

165:
  %166 = and i64 %41, 7
  %167 = icmp ult i64 %41, 8
  br i1 %167, label %332, label %168

168:
  %169 = and i64 %41, 9223372036854775800
  br label %170

170:
  %171 = phi i64 [ 0, %168 ], [ %220, %170 ]
  %172 = phi i64 [ 0, %168 ], [ %221, %170 ]
  %173 = getelementptr inbounds i64, ptr %43, i64 %171
  %174 = load i64, ptr %173, align 8
  %175 = getelementptr inbounds i8, ptr %36, i64 %174
  %176 = load i32, ptr %175, align 1
  %177 = getelementptr inbounds i32, ptr %38, i64 %171
  store i32 %176, ptr %177, align 1
  %178 = or i64 %171, 1
  %179 = getelementptr inbounds i64, ptr %43, i64 %178
  %180 = load i64, ptr %179, align 8
  %181 = getelementptr inbounds i8, ptr %36, i64 %180
  %182 = load i32, ptr %181, align 1
  %183 = getelementptr inbounds i32, ptr %38, i64 %178
  store i32 %182, ptr %183, align 1
  %184 = or i64 %171, 2
  %185 = getelementptr inbounds i64, ptr %43, i64 %184
  %186 = load i64, ptr %185, align 8
  %187 = getelementptr inbounds i8, ptr %36, i64 %186
  %188 = load i32, ptr %187, align 1
  %189 = getelementptr inbounds i32, ptr %38, i64 %184
  store i32 %188, ptr %189, align 1
  %190 = or i64 %171, 3
  %191 = getelementptr inbounds i64, ptr %43, i64 %190
  %192 = load i64, ptr %191, align 8
  %193 = getelementptr inbounds i8, ptr %36, i64 %192
  %194 = load i32, ptr %193, align 1
  %195 = getelementptr inbounds i32, ptr %38, i64 %190
  store i32 %194, ptr %195, align 1
  %196 = or i64 %171, 4
  %197 = getelementptr inbounds i64, ptr %43, i64 %196
  %198 = load i64, ptr %197, align 8
  %199 = getelementptr inbounds i8, ptr %36, i64 %198
  %200 = load i32, ptr %199, align 1
  %201 = getelementptr inbounds i32, ptr %38, i64 %196
  store i32 %200, ptr %201, align 1
  %202 = or i64 %171, 5
  %203 = getelementptr inbounds i64, ptr %43, i64 %202
  %204 = load i64, ptr %203, align 8
  %205 = getelementptr inbounds i8, ptr %36, i64 %204
  %206 = load i32, ptr %205, align 1
  %207 = getelementptr inbounds i32, ptr %38, i64 %202
  store i32 %206, ptr %207, align 1
  %208 = or i64 %171, 6
  %209 = getelementptr inbounds i64, ptr %43, i64 %208
  %210 = load i64, ptr %209, align 8
  %211 = getelementptr inbounds i8, ptr %36, i64 %210
  %212 = load i32, ptr %211, align 1
  %213 = getelementptr inbounds i32, ptr %38, i64 %208
  store i32 %212, ptr %213, align 1
  %214 = or i64 %171, 7
  %215 = getelementptr inbounds i64, ptr %43, i64 %214
  %216 = load i64, ptr %215, align 8
  %217 = getelementptr inbounds i8, ptr %36, i64 %216
  %218 = load i32, ptr %217, align 1
  %219 = getelementptr inbounds i32, ptr %38, i64 %214
  store i32 %218, ptr %219, align 1
  %220 = add i64 %171, 8
  %221 = add i64 %172, 8
  %222 = icmp eq i64 %221, %169
  br i1 %222, label %330, label %170

223:
  br i1 %45, label %224, label %346

224:
  %225 = and i64 %41, 7
  %226 = icmp ult i64 %41, 8
  br i1 %226, label %284, label %227

227:
  %228 = and i64 %41, 9223372036854775800
  br label %229

229:
  %230 = phi i64 [ 0, %227 ], [ %279, %229 ]
  %231 = phi i64 [ 0, %227 ], [ %280, %229 ]
  %232 = getelementptr inbounds i64, ptr %43, i64 %230
  %233 = load i64, ptr %232, align 8
  %234 = getelementptr inbounds i8, ptr %36, i64 %233
  %235 = load i64, ptr %234, align 1
  %236 = getelementptr inbounds i64, ptr %38, i64 %230
  store i64 %235, ptr %236, align 1
  %237 = or i64 %230, 1
  %238 = getelementptr inbounds i64, ptr %43, i64 %237
  %239 = load i64, ptr %238, align 8
  %240 = getelementptr inbounds i8, ptr %36, i64 %239
  %241 = load i64, ptr %240, align 1
  %242 = getelementptr inbounds i64, ptr %38, i64 %237
  store i64 %241, ptr %242, align 1
  %243 = or i64 %230, 2
  %244 = getelementptr inbounds i64, ptr %43, i64 %243
  %245 = load i64, ptr %244, align 8
  %246 = getelementptr inbounds i8, ptr %36, i64 %245
  %247 = load i64, ptr %246, align 1
  %248 = getelementptr inbounds i64, ptr %38, i64 %243
  store i64 %247, ptr %248, align 1
  %249 = or i64 %230, 3
  %250 = getelementptr inbounds i64, ptr %43, i64 %249
  %251 = load i64, ptr %250, align 8
  %252 = getelementptr inbounds i8, ptr %36, i64 %251
  %253 = load i64, ptr %252, align 1
  %254 = getelementptr inbounds i64, ptr %38, i64 %249
  store i64 %253, ptr %254, align 1
  %255 = or i64 %230, 4
  %256 = getelementptr inbounds i64, ptr %43, i64 %255
  %257 = load i64, ptr %256, align 8
  %258 = getelementptr inbounds i8, ptr %36, i64 %257
  %259 = load i64, ptr %258, align 1
  %260 = getelementptr inbounds i64, ptr %38, i64 %255
  store i64 %259, ptr %260, align 1
  %261 = or i64 %230, 5
  %262 = getelementptr inbounds i64, ptr %43, i64 %261
  %263 = load i64, ptr %262, align 8
  %264 = getelementptr inbounds i8, ptr %36, i64 %263
  %265 = load i64, ptr %264, align 1
  %266 = getelementptr inbounds i64, ptr %38, i64 %261
  store i64 %265, ptr %266, align 1
  %267 = or i64 %230, 6
  %268 = getelementptr inbounds i64, ptr %43, i64 %267
  %269 = load i64, ptr %268, align 8
  %270 = getelementptr inbounds i8, ptr %36, i64 %269
  %271 = load i64, ptr %270, align 1
  %272 = getelementptr inbounds i64, ptr %38, i64 %267
  store i64 %271, ptr %272, align 1
  %273 = or i64 %230, 7
  %274 = getelementptr inbounds i64, ptr %43, i64 %273
  %275 = load i64, ptr %274, align 8
  %276 = getelementptr inbounds i8, ptr %36, i64 %275
  %277 = load i64, ptr %276, align 1
  %278 = getelementptr inbounds i64, ptr %38, i64 %273
  store i64 %277, ptr %278, align 1
  %279 = add i64 %230, 8
  %280 = add i64 %231, 8
  %281 = icmp eq i64 %280, %228
  br i1 %281, label %282, label %229

282:
  %283 = icmp eq i64 %225, 0
  br i1 %283, label %346, label %284

284:
  %285 = phi i64 [ 0, %224 ], [ %279, %282 ]
  %286 = icmp ne i64 %225, 0
  tail call void @llvm.assume(i1 %286)
  br label %287

287:
  %288 = phi i64 [ %295, %287 ], [ %285, %284 ]
  %289 = phi i64 [ %296, %287 ], [ 0, %284 ]
  %290 = getelementptr inbounds i64, ptr %43, i64 %288
  %291 = load i64, ptr %290, align 8
  %292 = getelementptr inbounds i8, ptr %36, i64 %291
  %293 = load i64, ptr %292, align 1
  %294 = getelementptr inbounds i64, ptr %38, i64 %288
  store i64 %293, ptr %294, align 1
  %295 = add i64 %288, 1
  %296 = add i64 %289, 1
  %297 = icmp eq i64 %296, %225
  br i1 %297, label %346, label %287

298:
  %299 = icmp eq i64 %48, 0
  br i1 %299, label %346, label %300

300:
  %301 = phi i64 [ 0, %47 ], [ %102, %298 ]
  %302 = icmp ne i64 %48, 0
  tail call void @llvm.assume(i1 %302)
  br label %303

303:
  %304 = phi i64 [ %311, %303 ], [ %301, %300 ]
  %305 = phi i64 [ %312, %303 ], [ 0, %300 ]
  %306 = getelementptr inbounds i64, ptr %43, i64 %304
  %307 = load i64, ptr %306, align 8
  %308 = getelementptr inbounds i8, ptr %36, i64 %307
  %309 = load i8, ptr %308, align 1
  %310 = getelementptr inbounds i8, ptr %38, i64 %304
  store i8 %309, ptr %310, align 1
  %311 = add i64 %304, 1
  %312 = add i64 %305, 1
  %313 = icmp eq i64 %312, %48
  br i1 %313, label %346, label %303

314:
  %315 = icmp eq i64 %107, 0
  br i1 %315, label %346, label %316

316:
  %317 = phi i64 [ 0, %106 ], [ %161, %314 ]
  %318 = icmp ne i64 %107, 0
  tail call void @llvm.assume(i1 %318)
  br label %319

319:
  %320 = phi i64 [ %327, %319 ], [ %317, %316 ]
  %321 = phi i64 [ %328, %319 ], [ 0, %316 ]
  %322 = getelementptr inbounds i64, ptr %43, i64 %320
  %323 = load i64, ptr %322, align 8
  %324 = getelementptr inbounds i8, ptr %36, i64 %323
  %325 = load i16, ptr %324, align 1
  %326 = getelementptr inbounds i16, ptr %38, i64 %320
  store i16 %325, ptr %326, align 1
  %327 = add i64 %320, 1
  %328 = add i64 %321, 1
  %329 = icmp eq i64 %328, %107
  br i1 %329, label %346, label %319

330:
  %331 = icmp eq i64 %166, 0
  br i1 %331, label %346, label %332

332:
  %333 = phi i64 [ 0, %165 ], [ %220, %330 ]
  %334 = icmp ne i64 %166, 0
  tail call void @llvm.assume(i1 %334)
  br label %335

335:
  %336 = phi i64 [ %343, %335 ], [ %333, %332 ]
  %337 = phi i64 [ %344, %335 ], [ 0, %332 ]
  %338 = getelementptr inbounds i64, ptr %43, i64 %336
  %339 = load i64, ptr %338, align 8
  %340 = getelementptr inbounds i8, ptr %36, i64 %339
  %341 = load i32, ptr %340, align 1
  %342 = getelementptr inbounds i32, ptr %38, i64 %336
  store i32 %341, ptr %342, align 1
  %343 = add i64 %336, 1
  %344 = add i64 %337, 1
  %345 = icmp eq i64 %344, %166
  br i1 %345, label %346, label %335

346:
  %347 = add i64 %37, 1
  %348 = load i64, ptr %32, align 8
  %349 = getelementptr inbounds i8, ptr %36, i64 %348
  %350 = load i64, ptr %33, align 8
  %351 = getelementptr inbounds i8, ptr %38, i64 %350
  %352 = load i64, ptr %12, align 8
  %353 = icmp slt i64 %347, %352
  br i1 %353, label %35, label %34
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
  %97 = and i64 %26, 7
  %98 = icmp ult i64 %56, 7
  %99 = and i64 %26, 9223372036854775800
  %100 = icmp eq i64 %97, 0
  %101 = icmp ne i64 %97, 0
  %102 = and i64 %26, 7
  %103 = icmp ult i64 %56, 7
  %104 = and i64 %26, 9223372036854775800
  %105 = icmp eq i64 %102, 0
  %106 = icmp ne i64 %102, 0
  %107 = and i64 %26, 7
  %108 = icmp ult i64 %56, 7
  %109 = and i64 %26, 9223372036854775800
  %110 = icmp eq i64 %107, 0
  %111 = icmp ne i64 %107, 0
  %112 = and i64 %26, 7
  %113 = icmp ult i64 %56, 7
  %114 = and i64 %26, 9223372036854775800
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
  %139 = phi ptr [ %10, %50 ], [ %974, %971 ]
  %140 = phi ptr [ %17, %50 ], [ %976, %971 ]
  %141 = phi i64 [ 0, %50 ], [ %972, %971 ]
  %142 = load i64, ptr %51, align 8
  %143 = sdiv i64 %141, %142
  %144 = load i64, ptr %25, align 8
  %145 = mul i64 %144, %143
  %146 = getelementptr inbounds i64, ptr %24, i64 %145
  %147 = mul i64 %141, %45
  %148 = getelementptr inbounds i8, ptr %44, i64 %147
  %149 = load i64, ptr %27, align 8
  %150 = load i64, ptr %52, align 8
  switch i64 %149, label %622 [
    i64 0, label %151
    i64 1, label %372
    i64 2, label %497
  ]

151:
  switch i64 %150, label %317 [
    i64 1, label %152
    i64 2, label %207
    i64 4, label %262
  ]

152:
  br i1 %53, label %153, label %971

153:
  br i1 %108, label %818, label %154

154:
  %155 = phi i64 [ %204, %154 ], [ 0, %153 ]
  %156 = phi i64 [ %205, %154 ], [ 0, %153 ]
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
  %180 = or i64 %155, 4
  %181 = getelementptr inbounds i8, ptr %140, i64 %180
  %182 = load i8, ptr %181, align 1
  %183 = getelementptr inbounds i64, ptr %146, i64 %180
  %184 = load i64, ptr %183, align 8
  %185 = getelementptr inbounds i8, ptr %139, i64 %184
  store i8 %182, ptr %185, align 1
  %186 = or i64 %155, 5
  %187 = getelementptr inbounds i8, ptr %140, i64 %186
  %188 = load i8, ptr %187, align 1
  %189 = getelementptr inbounds i64, ptr %146, i64 %186
  %190 = load i64, ptr %189, align 8
  %191 = getelementptr inbounds i8, ptr %139, i64 %190
  store i8 %188, ptr %191, align 1
  %192 = or i64 %155, 6
  %193 = getelementptr inbounds i8, ptr %140, i64 %192
  %194 = load i8, ptr %193, align 1
  %195 = getelementptr inbounds i64, ptr %146, i64 %192
  %196 = load i64, ptr %195, align 8
  %197 = getelementptr inbounds i8, ptr %139, i64 %196
  store i8 %194, ptr %197, align 1
  %198 = or i64 %155, 7
  %199 = getelementptr inbounds i8, ptr %140, i64 %198
  %200 = load i8, ptr %199, align 1
  %201 = getelementptr inbounds i64, ptr %146, i64 %198
  %202 = load i64, ptr %201, align 8
  %203 = getelementptr inbounds i8, ptr %139, i64 %202
  store i8 %200, ptr %203, align 1
  %204 = add i64 %155, 8
  %205 = add i64 %156, 8
  %206 = icmp eq i64 %205, %109
  br i1 %206, label %817, label %154

207:
  br i1 %53, label %208, label %971

208:
  br i1 %103, label %832, label %209

209:
  %210 = phi i64 [ %259, %209 ], [ 0, %208 ]
  %211 = phi i64 [ %260, %209 ], [ 0, %208 ]
  %212 = getelementptr inbounds i16, ptr %140, i64 %210
  %213 = load i16, ptr %212, align 1
  %214 = getelementptr inbounds i64, ptr %146, i64 %210
  %215 = load i64, ptr %214, align 8
  %216 = getelementptr inbounds i8, ptr %139, i64 %215
  store i16 %213, ptr %216, align 1
  %217 = or i64 %210, 1
  %218 = getelementptr inbounds i16, ptr %140, i64 %217
  %219 = load i16, ptr %218, align 1
  %220 = getelementptr inbounds i64, ptr %146, i64 %217
  %221 = load i64, ptr %220, align 8
  %222 = getelementptr inbounds i8, ptr %139, i64 %221
  store i16 %219, ptr %222, align 1
  %223 = or i64 %210, 2
  %224 = getelementptr inbounds i16, ptr %140, i64 %223
  %225 = load i16, ptr %224, align 1
  %226 = getelementptr inbounds i64, ptr %146, i64 %223
  %227 = load i64, ptr %226, align 8
  %228 = getelementptr inbounds i8, ptr %139, i64 %227
  store i16 %225, ptr %228, align 1
  %229 = or i64 %210, 3
  %230 = getelementptr inbounds i16, ptr %140, i64 %229
  %231 = load i16, ptr %230, align 1
  %232 = getelementptr inbounds i64, ptr %146, i64 %229
  %233 = load i64, ptr %232, align 8
  %234 = getelementptr inbounds i8, ptr %139, i64 %233
  store i16 %231, ptr %234, align 1
  %235 = or i64 %210, 4
  %236 = getelementptr inbounds i16, ptr %140, i64 %235
  %237 = load i16, ptr %236, align 1
  %238 = getelementptr inbounds i64, ptr %146, i64 %235
  %239 = load i64, ptr %238, align 8
  %240 = getelementptr inbounds i8, ptr %139, i64 %239
  store i16 %237, ptr %240, align 1
  %241 = or i64 %210, 5
  %242 = getelementptr inbounds i16, ptr %140, i64 %241
  %243 = load i16, ptr %242, align 1
  %244 = getelementptr inbounds i64, ptr %146, i64 %241
  %245 = load i64, ptr %244, align 8
  %246 = getelementptr inbounds i8, ptr %139, i64 %245
  store i16 %243, ptr %246, align 1
  %247 = or i64 %210, 6
  %248 = getelementptr inbounds i16, ptr %140, i64 %247
  %249 = load i16, ptr %248, align 1
  %250 = getelementptr inbounds i64, ptr %146, i64 %247
  %251 = load i64, ptr %250, align 8
  %252 = getelementptr inbounds i8, ptr %139, i64 %251
  store i16 %249, ptr %252, align 1
  %253 = or i64 %210, 7
  %254 = getelementptr inbounds i16, ptr %140, i64 %253
  %255 = load i16, ptr %254, align 1
  %256 = getelementptr inbounds i64, ptr %146, i64 %253
  %257 = load i64, ptr %256, align 8
  %258 = getelementptr inbounds i8, ptr %139, i64 %257
  store i16 %255, ptr %258, align 1
  %259 = add i64 %210, 8
  %260 = add i64 %211, 8
  %261 = icmp eq i64 %260, %104
  br i1 %261, label %831, label %209

262:
  br i1 %53, label %263, label %971

263:
  br i1 %98, label %846, label %264

264:
  %265 = phi i64 [ %314, %264 ], [ 0, %263 ]
  %266 = phi i64 [ %315, %264 ], [ 0, %263 ]
  %267 = getelementptr inbounds i32, ptr %140, i64 %265
  %268 = load i32, ptr %267, align 1
  %269 = getelementptr inbounds i64, ptr %146, i64 %265
  %270 = load i64, ptr %269, align 8
  %271 = getelementptr inbounds i8, ptr %139, i64 %270
  store i32 %268, ptr %271, align 1
  %272 = or i64 %265, 1
  %273 = getelementptr inbounds i32, ptr %140, i64 %272
  %274 = load i32, ptr %273, align 1
  %275 = getelementptr inbounds i64, ptr %146, i64 %272
  %276 = load i64, ptr %275, align 8
  %277 = getelementptr inbounds i8, ptr %139, i64 %276
  store i32 %274, ptr %277, align 1
  %278 = or i64 %265, 2
  %279 = getelementptr inbounds i32, ptr %140, i64 %278
  %280 = load i32, ptr %279, align 1
  %281 = getelementptr inbounds i64, ptr %146, i64 %278
  %282 = load i64, ptr %281, align 8
  %283 = getelementptr inbounds i8, ptr %139, i64 %282
  store i32 %280, ptr %283, align 1
  %284 = or i64 %265, 3
  %285 = getelementptr inbounds i32, ptr %140, i64 %284
  %286 = load i32, ptr %285, align 1
  %287 = getelementptr inbounds i64, ptr %146, i64 %284
  %288 = load i64, ptr %287, align 8
  %289 = getelementptr inbounds i8, ptr %139, i64 %288
  store i32 %286, ptr %289, align 1
  %290 = or i64 %265, 4
  %291 = getelementptr inbounds i32, ptr %140, i64 %290
  %292 = load i32, ptr %291, align 1
  %293 = getelementptr inbounds i64, ptr %146, i64 %290
  %294 = load i64, ptr %293, align 8
  %295 = getelementptr inbounds i8, ptr %139, i64 %294
  store i32 %292, ptr %295, align 1
  %296 = or i64 %265, 5
  %297 = getelementptr inbounds i32, ptr %140, i64 %296
  %298 = load i32, ptr %297, align 1
  %299 = getelementptr inbounds i64, ptr %146, i64 %296
  %300 = load i64, ptr %299, align 8
  %301 = getelementptr inbounds i8, ptr %139, i64 %300
  store i32 %298, ptr %301, align 1
  %302 = or i64 %265, 6
  %303 = getelementptr inbounds i32, ptr %140, i64 %302
  %304 = load i32, ptr %303, align 1
  %305 = getelementptr inbounds i64, ptr %146, i64 %302
  %306 = load i64, ptr %305, align 8
  %307 = getelementptr inbounds i8, ptr %139, i64 %306
  store i32 %304, ptr %307, align 1
  %308 = or i64 %265, 7
  %309 = getelementptr inbounds i32, ptr %140, i64 %308
  %310 = load i32, ptr %309, align 1
  %311 = getelementptr inbounds i64, ptr %146, i64 %308
  %312 = load i64, ptr %311, align 8
  %313 = getelementptr inbounds i8, ptr %139, i64 %312
  store i32 %310, ptr %313, align 1
  %314 = add i64 %265, 8
  %315 = add i64 %266, 8
  %316 = icmp eq i64 %315, %99
  br i1 %316, label %845, label %264

317:
  br i1 %53, label %318, label %971

318:
  br i1 %113, label %804, label %319

319:
  %320 = phi i64 [ %369, %319 ], [ 0, %318 ]
  %321 = phi i64 [ %370, %319 ], [ 0, %318 ]
  %322 = getelementptr inbounds i64, ptr %140, i64 %320
  %323 = load i64, ptr %322, align 1
  %324 = getelementptr inbounds i64, ptr %146, i64 %320
  %325 = load i64, ptr %324, align 8
  %326 = getelementptr inbounds i8, ptr %139, i64 %325
  store i64 %323, ptr %326, align 1
  %327 = or i64 %320, 1
  %328 = getelementptr inbounds i64, ptr %140, i64 %327
  %329 = load i64, ptr %328, align 1
  %330 = getelementptr inbounds i64, ptr %146, i64 %327
  %331 = load i64, ptr %330, align 8
  %332 = getelementptr inbounds i8, ptr %139, i64 %331
  store i64 %329, ptr %332, align 1
  %333 = or i64 %320, 2
  %334 = getelementptr inbounds i64, ptr %140, i64 %333
  %335 = load i64, ptr %334, align 1
  %336 = getelementptr inbounds i64, ptr %146, i64 %333
  %337 = load i64, ptr %336, align 8
  %338 = getelementptr inbounds i8, ptr %139, i64 %337
  store i64 %335, ptr %338, align 1
  %339 = or i64 %320, 3
  %340 = getelementptr inbounds i64, ptr %140, i64 %339
  %341 = load i64, ptr %340, align 1
  %342 = getelementptr inbounds i64, ptr %146, i64 %339
  %343 = load i64, ptr %342, align 8
  %344 = getelementptr inbounds i8, ptr %139, i64 %343
  store i64 %341, ptr %344, align 1
  %345 = or i64 %320, 4
  %346 = getelementptr inbounds i64, ptr %140, i64 %345
  %347 = load i64, ptr %346, align 1
  %348 = getelementptr inbounds i64, ptr %146, i64 %345
  %349 = load i64, ptr %348, align 8
  %350 = getelementptr inbounds i8, ptr %139, i64 %349
  store i64 %347, ptr %350, align 1
  %351 = or i64 %320, 5
  %352 = getelementptr inbounds i64, ptr %140, i64 %351
  %353 = load i64, ptr %352, align 1
  %354 = getelementptr inbounds i64, ptr %146, i64 %351
  %355 = load i64, ptr %354, align 8
  %356 = getelementptr inbounds i8, ptr %139, i64 %355
  store i64 %353, ptr %356, align 1
  %357 = or i64 %320, 6
  %358 = getelementptr inbounds i64, ptr %140, i64 %357
  %359 = load i64, ptr %358, align 1
  %360 = getelementptr inbounds i64, ptr %146, i64 %357
  %361 = load i64, ptr %360, align 8
  %362 = getelementptr inbounds i8, ptr %139, i64 %361
  store i64 %359, ptr %362, align 1
  %363 = or i64 %320, 7
  %364 = getelementptr inbounds i64, ptr %140, i64 %363
  %365 = load i64, ptr %364, align 1
  %366 = getelementptr inbounds i64, ptr %146, i64 %363
  %367 = load i64, ptr %366, align 8
  %368 = getelementptr inbounds i8, ptr %139, i64 %367
  store i64 %365, ptr %368, align 1
  %369 = add i64 %320, 8
  %370 = add i64 %321, 8
  %371 = icmp eq i64 %370, %114
  br i1 %371, label %803, label %319

372:
  switch i64 %150, label %466 [
    i64 1, label %373
    i64 2, label %404
    i64 4, label %435
  ]

373:
  br i1 %53, label %374, label %971

374:
  br i1 %88, label %874, label %375

375:
  %376 = phi i64 [ %401, %375 ], [ 0, %374 ]
  %377 = phi i64 [ %402, %375 ], [ 0, %374 ]
  %378 = getelementptr inbounds i64, ptr %146, i64 %376
  %379 = load i64, ptr %378, align 8
  %380 = getelementptr inbounds i8, ptr %139, i64 %379
  %381 = load i8, ptr %380, align 1
  %382 = getelementptr inbounds i8, ptr %140, i64 %376
  %383 = load i8, ptr %382, align 1
  %384 = getelementptr inbounds i8, ptr %148, i64 %376
  %385 = load i8, ptr %384, align 1
  %386 = icmp ne i8 %385, 0
  %387 = xor i1 %46, %386
  %388 = select i1 %387, i8 %383, i8 %381
  store i8 %388, ptr %380, align 1
  %389 = or i64 %376, 1
  %390 = getelementptr inbounds i64, ptr %146, i64 %389
  %391 = load i64, ptr %390, align 8
  %392 = getelementptr inbounds i8, ptr %139, i64 %391
  %393 = load i8, ptr %392, align 1
  %394 = getelementptr inbounds i8, ptr %140, i64 %389
  %395 = load i8, ptr %394, align 1
  %396 = getelementptr inbounds i8, ptr %148, i64 %389
  %397 = load i8, ptr %396, align 1
  %398 = icmp ne i8 %397, 0
  %399 = xor i1 %46, %398
  %400 = select i1 %399, i8 %395, i8 %393
  store i8 %400, ptr %392, align 1
  %401 = add i64 %376, 2
  %402 = add i64 %377, 2
  %403 = icmp eq i64 %402, %89
  br i1 %403, label %873, label %375

404:
  br i1 %53, label %405, label %971

405:
  br i1 %83, label %888, label %406

406:
  %407 = phi i64 [ %432, %406 ], [ 0, %405 ]
  %408 = phi i64 [ %433, %406 ], [ 0, %405 ]
  %409 = getelementptr inbounds i64, ptr %146, i64 %407
  %410 = load i64, ptr %409, align 8
  %411 = getelementptr inbounds i8, ptr %139, i64 %410
  %412 = load i16, ptr %411, align 1
  %413 = getelementptr inbounds i16, ptr %140, i64 %407
  %414 = load i16, ptr %413, align 1
  %415 = getelementptr inbounds i8, ptr %148, i64 %407
  %416 = load i8, ptr %415, align 1
  %417 = icmp ne i8 %416, 0
  %418 = xor i1 %46, %417
  %419 = select i1 %418, i16 %414, i16 %412
  store i16 %419, ptr %411, align 1
  %420 = or i64 %407, 1
  %421 = getelementptr inbounds i64, ptr %146, i64 %420
  %422 = load i64, ptr %421, align 8
  %423 = getelementptr inbounds i8, ptr %139, i64 %422
  %424 = load i16, ptr %423, align 1
  %425 = getelementptr inbounds i16, ptr %140, i64 %420
  %426 = load i16, ptr %425, align 1
  %427 = getelementptr inbounds i8, ptr %148, i64 %420
  %428 = load i8, ptr %427, align 1
  %429 = icmp ne i8 %428, 0
  %430 = xor i1 %46, %429
  %431 = select i1 %430, i16 %426, i16 %424
  store i16 %431, ptr %423, align 1
  %432 = add i64 %407, 2
  %433 = add i64 %408, 2
  %434 = icmp eq i64 %433, %84
  br i1 %434, label %887, label %406

435:
  br i1 %53, label %436, label %971

436:
  br i1 %78, label %902, label %437

437:
  %438 = phi i64 [ %463, %437 ], [ 0, %436 ]
  %439 = phi i64 [ %464, %437 ], [ 0, %436 ]
  %440 = getelementptr inbounds i64, ptr %146, i64 %438
  %441 = load i64, ptr %440, align 8
  %442 = getelementptr inbounds i8, ptr %139, i64 %441
  %443 = load i32, ptr %442, align 1
  %444 = getelementptr inbounds i32, ptr %140, i64 %438
  %445 = load i32, ptr %444, align 1
  %446 = getelementptr inbounds i8, ptr %148, i64 %438
  %447 = load i8, ptr %446, align 1
  %448 = icmp ne i8 %447, 0
  %449 = xor i1 %46, %448
  %450 = select i1 %449, i32 %445, i32 %443
  store i32 %450, ptr %442, align 1
  %451 = or i64 %438, 1
  %452 = getelementptr inbounds i64, ptr %146, i64 %451
  %453 = load i64, ptr %452, align 8
  %454 = getelementptr inbounds i8, ptr %139, i64 %453
  %455 = load i32, ptr %454, align 1
  %456 = getelementptr inbounds i32, ptr %140, i64 %451
  %457 = load i32, ptr %456, align 1
  %458 = getelementptr inbounds i8, ptr %148, i64 %451
  %459 = load i8, ptr %458, align 1
  %460 = icmp ne i8 %459, 0
  %461 = xor i1 %46, %460
  %462 = select i1 %461, i32 %457, i32 %455
  store i32 %462, ptr %454, align 1
  %463 = add i64 %438, 2
  %464 = add i64 %439, 2
  %465 = icmp eq i64 %464, %79
  br i1 %465, label %901, label %437

466:
  br i1 %53, label %467, label %971

467:
  br i1 %93, label %860, label %468

468:
  %469 = phi i64 [ %494, %468 ], [ 0, %467 ]
  %470 = phi i64 [ %495, %468 ], [ 0, %467 ]
  %471 = getelementptr inbounds i64, ptr %146, i64 %469
  %472 = load i64, ptr %471, align 8
  %473 = getelementptr inbounds i8, ptr %139, i64 %472
  %474 = load i64, ptr %473, align 1
  %475 = getelementptr inbounds i64, ptr %140, i64 %469
  %476 = load i64, ptr %475, align 1
  %477 = getelementptr inbounds i8, ptr %148, i64 %469
  %478 = load i8, ptr %477, align 1
  %479 = icmp ne i8 %478, 0
  %480 = xor i1 %46, %479
  %481 = select i1 %480, i64 %476, i64 %474
  store i64 %481, ptr %473, align 1
  %482 = or i64 %469, 1
  %483 = getelementptr inbounds i64, ptr %146, i64 %482
  %484 = load i64, ptr %483, align 8
  %485 = getelementptr inbounds i8, ptr %139, i64 %484
  %486 = load i64, ptr %485, align 1
  %487 = getelementptr inbounds i64, ptr %140, i64 %482
  %488 = load i64, ptr %487, align 1
  %489 = getelementptr inbounds i8, ptr %148, i64 %482
  %490 = load i8, ptr %489, align 1
  %491 = icmp ne i8 %490, 0
  %492 = xor i1 %46, %491
  %493 = select i1 %492, i64 %488, i64 %486
  store i64 %493, ptr %485, align 1
  %494 = add i64 %469, 2
  %495 = add i64 %470, 2
  %496 = icmp eq i64 %495, %94
  br i1 %496, label %859, label %468

497:
  switch i64 %150, label %591 [
    i64 1, label %498
    i64 2, label %529
    i64 4, label %560
  ]

498:
  br i1 %53, label %499, label %971

499:
  br i1 %68, label %930, label %500

500:
  %501 = phi i64 [ %526, %500 ], [ 0, %499 ]
  %502 = phi i64 [ %527, %500 ], [ 0, %499 ]
  %503 = getelementptr inbounds i64, ptr %146, i64 %501
  %504 = load i64, ptr %503, align 8
  %505 = getelementptr inbounds i8, ptr %139, i64 %504
  %506 = load i8, ptr %505, align 1
  %507 = getelementptr inbounds i8, ptr %140, i64 %501
  %508 = load i8, ptr %507, align 1
  %509 = getelementptr inbounds i16, ptr %148, i64 %501
  %510 = load i16, ptr %509, align 1
  %511 = icmp ne i16 %510, 0
  %512 = xor i1 %46, %511
  %513 = select i1 %512, i8 %508, i8 %506
  store i8 %513, ptr %505, align 1
  %514 = or i64 %501, 1
  %515 = getelementptr inbounds i64, ptr %146, i64 %514
  %516 = load i64, ptr %515, align 8
  %517 = getelementptr inbounds i8, ptr %139, i64 %516
  %518 = load i8, ptr %517, align 1
  %519 = getelementptr inbounds i8, ptr %140, i64 %514
  %520 = load i8, ptr %519, align 1
  %521 = getelementptr inbounds i16, ptr %148, i64 %514
  %522 = load i16, ptr %521, align 1
  %523 = icmp ne i16 %522, 0
  %524 = xor i1 %46, %523
  %525 = select i1 %524, i8 %520, i8 %518
  store i8 %525, ptr %517, align 1
  %526 = add i64 %501, 2
  %527 = add i64 %502, 2
  %528 = icmp eq i64 %527, %69
  br i1 %528, label %929, label %500

529:
  br i1 %53, label %530, label %971

530:
  br i1 %63, label %944, label %531

531:
  %532 = phi i64 [ %557, %531 ], [ 0, %530 ]
  %533 = phi i64 [ %558, %531 ], [ 0, %530 ]
  %534 = getelementptr inbounds i64, ptr %146, i64 %532
  %535 = load i64, ptr %534, align 8
  %536 = getelementptr inbounds i8, ptr %139, i64 %535
  %537 = load i16, ptr %536, align 1
  %538 = getelementptr inbounds i16, ptr %140, i64 %532
  %539 = load i16, ptr %538, align 1
  %540 = getelementptr inbounds i16, ptr %148, i64 %532
  %541 = load i16, ptr %540, align 1
  %542 = icmp ne i16 %541, 0
  %543 = xor i1 %46, %542
  %544 = select i1 %543, i16 %539, i16 %537
  store i16 %544, ptr %536, align 1
  %545 = or i64 %532, 1
  %546 = getelementptr inbounds i64, ptr %146, i64 %545
  %547 = load i64, ptr %546, align 8
  %548 = getelementptr inbounds i8, ptr %139, i64 %547
  %549 = load i16, ptr %548, align 1
  %550 = getelementptr inbounds i16, ptr %140, i64 %545
  %551 = load i16, ptr %550, align 1
  %552 = getelementptr inbounds i16, ptr %148, i64 %545
  %553 = load i16, ptr %552, align 1
  %554 = icmp ne i16 %553, 0
  %555 = xor i1 %46, %554
  %556 = select i1 %555, i16 %551, i16 %549
  store i16 %556, ptr %548, align 1
  %557 = add i64 %532, 2
  %558 = add i64 %533, 2
  %559 = icmp eq i64 %558, %64
  br i1 %559, label %943, label %531

560:
  br i1 %53, label %561, label %971

561:
  br i1 %58, label %958, label %562

562:
  %563 = phi i64 [ %588, %562 ], [ 0, %561 ]
  %564 = phi i64 [ %589, %562 ], [ 0, %561 ]
  %565 = getelementptr inbounds i64, ptr %146, i64 %563
  %566 = load i64, ptr %565, align 8
  %567 = getelementptr inbounds i8, ptr %139, i64 %566
  %568 = load i32, ptr %567, align 1
  %569 = getelementptr inbounds i32, ptr %140, i64 %563
  %570 = load i32, ptr %569, align 1
  %571 = getelementptr inbounds i16, ptr %148, i64 %563
  %572 = load i16, ptr %571, align 1
  %573 = icmp ne i16 %572, 0
  %574 = xor i1 %46, %573
  %575 = select i1 %574, i32 %570, i32 %568
  store i32 %575, ptr %567, align 1
  %576 = or i64 %563, 1
  %577 = getelementptr inbounds i64, ptr %146, i64 %576
  %578 = load i64, ptr %577, align 8
  %579 = getelementptr inbounds i8, ptr %139, i64 %578
  %580 = load i32, ptr %579, align 1
  %581 = getelementptr inbounds i32, ptr %140, i64 %576
  %582 = load i32, ptr %581, align 1
  %583 = getelementptr inbounds i16, ptr %148, i64 %576
  %584 = load i16, ptr %583, align 1
  %585 = icmp ne i16 %584, 0
  %586 = xor i1 %46, %585
  %587 = select i1 %586, i32 %582, i32 %580
  store i32 %587, ptr %579, align 1
  %588 = add i64 %563, 2
  %589 = add i64 %564, 2
  %590 = icmp eq i64 %589, %59
  br i1 %590, label %957, label %562

591:
  br i1 %53, label %592, label %971

592:
  br i1 %73, label %916, label %593

593:
  %594 = phi i64 [ %619, %593 ], [ 0, %592 ]
  %595 = phi i64 [ %620, %593 ], [ 0, %592 ]
  %596 = getelementptr inbounds i64, ptr %146, i64 %594
  %597 = load i64, ptr %596, align 8
  %598 = getelementptr inbounds i8, ptr %139, i64 %597
  %599 = load i64, ptr %598, align 1
  %600 = getelementptr inbounds i64, ptr %140, i64 %594
  %601 = load i64, ptr %600, align 1
  %602 = getelementptr inbounds i16, ptr %148, i64 %594
  %603 = load i16, ptr %602, align 1
  %604 = icmp ne i16 %603, 0
  %605 = xor i1 %46, %604
  %606 = select i1 %605, i64 %601, i64 %599
  store i64 %606, ptr %598, align 1
  %607 = or i64 %594, 1
  %608 = getelementptr inbounds i64, ptr %146, i64 %607
  %609 = load i64, ptr %608, align 8
  %610 = getelementptr inbounds i8, ptr %139, i64 %609
  %611 = load i64, ptr %610, align 1
  %612 = getelementptr inbounds i64, ptr %140, i64 %607
  %613 = load i64, ptr %612, align 1
  %614 = getelementptr inbounds i16, ptr %148, i64 %607
  %615 = load i16, ptr %614, align 1
  %616 = icmp ne i16 %615, 0
  %617 = xor i1 %46, %616
  %618 = select i1 %617, i64 %613, i64 %611
  store i64 %618, ptr %610, align 1
  %619 = add i64 %594, 2
  %620 = add i64 %595, 2
  %621 = icmp eq i64 %620, %74
  br i1 %621, label %915, label %593

622:
  switch i64 %150, label %716 [
    i64 1, label %623
    i64 2, label %654
    i64 4, label %685
  ]

623:
  br i1 %53, label %624, label %971

624:
  br i1 %128, label %762, label %625

625:
  %626 = phi i64 [ %651, %625 ], [ 0, %624 ]
  %627 = phi i64 [ %652, %625 ], [ 0, %624 ]
  %628 = getelementptr inbounds i64, ptr %146, i64 %626
  %629 = load i64, ptr %628, align 8
  %630 = getelementptr inbounds i8, ptr %139, i64 %629
  %631 = load i8, ptr %630, align 1
  %632 = getelementptr inbounds i8, ptr %140, i64 %626
  %633 = load i8, ptr %632, align 1
  %634 = getelementptr inbounds i32, ptr %148, i64 %626
  %635 = load i32, ptr %634, align 1
  %636 = icmp ne i32 %635, 0
  %637 = xor i1 %46, %636
  %638 = select i1 %637, i8 %633, i8 %631
  store i8 %638, ptr %630, align 1
  %639 = or i64 %626, 1
  %640 = getelementptr inbounds i64, ptr %146, i64 %639
  %641 = load i64, ptr %640, align 8
  %642 = getelementptr inbounds i8, ptr %139, i64 %641
  %643 = load i8, ptr %642, align 1
  %644 = getelementptr inbounds i8, ptr %140, i64 %639
  %645 = load i8, ptr %644, align 1
  %646 = getelementptr inbounds i32, ptr %148, i64 %639
  %647 = load i32, ptr %646, align 1
  %648 = icmp ne i32 %647, 0
  %649 = xor i1 %46, %648
  %650 = select i1 %649, i8 %645, i8 %643
  store i8 %650, ptr %642, align 1
  %651 = add i64 %626, 2
  %652 = add i64 %627, 2
  %653 = icmp eq i64 %652, %129
  br i1 %653, label %761, label %625

654:
  br i1 %53, label %655, label %971

655:
  br i1 %123, label %776, label %656

656:
  %657 = phi i64 [ %682, %656 ], [ 0, %655 ]
  %658 = phi i64 [ %683, %656 ], [ 0, %655 ]
  %659 = getelementptr inbounds i64, ptr %146, i64 %657
  %660 = load i64, ptr %659, align 8
  %661 = getelementptr inbounds i8, ptr %139, i64 %660
  %662 = load i16, ptr %661, align 1
  %663 = getelementptr inbounds i16, ptr %140, i64 %657
  %664 = load i16, ptr %663, align 1
  %665 = getelementptr inbounds i32, ptr %148, i64 %657
  %666 = load i32, ptr %665, align 1
  %667 = icmp ne i32 %666, 0
  %668 = xor i1 %46, %667
  %669 = select i1 %668, i16 %664, i16 %662
  store i16 %669, ptr %661, align 1
  %670 = or i64 %657, 1
  %671 = getelementptr inbounds i64, ptr %146, i64 %670
  %672 = load i64, ptr %671, align 8
  %673 = getelementptr inbounds i8, ptr %139, i64 %672
  %674 = load i16, ptr %673, align 1
  %675 = getelementptr inbounds i16, ptr %140, i64 %670
  %676 = load i16, ptr %675, align 1
  %677 = getelementptr inbounds i32, ptr %148, i64 %670
  %678 = load i32, ptr %677, align 1
  %679 = icmp ne i32 %678, 0
  %680 = xor i1 %46, %679
  %681 = select i1 %680, i16 %676, i16 %674
  store i16 %681, ptr %673, align 1
  %682 = add i64 %657, 2
  %683 = add i64 %658, 2
  %684 = icmp eq i64 %683, %124
  br i1 %684, label %775, label %656

685:
  br i1 %53, label %686, label %971

686:
  br i1 %118, label %790, label %687

687:
  %688 = phi i64 [ %713, %687 ], [ 0, %686 ]
  %689 = phi i64 [ %714, %687 ], [ 0, %686 ]
  %690 = getelementptr inbounds i64, ptr %146, i64 %688
  %691 = load i64, ptr %690, align 8
  %692 = getelementptr inbounds i8, ptr %139, i64 %691
  %693 = load i32, ptr %692, align 1
  %694 = getelementptr inbounds i32, ptr %140, i64 %688
  %695 = load i32, ptr %694, align 1
  %696 = getelementptr inbounds i32, ptr %148, i64 %688
  %697 = load i32, ptr %696, align 1
  %698 = icmp ne i32 %697, 0
  %699 = xor i1 %46, %698
  %700 = select i1 %699, i32 %695, i32 %693
  store i32 %700, ptr %692, align 1
  %701 = or i64 %688, 1
  %702 = getelementptr inbounds i64, ptr %146, i64 %701
  %703 = load i64, ptr %702, align 8
  %704 = getelementptr inbounds i8, ptr %139, i64 %703
  %705 = load i32, ptr %704, align 1
  %706 = getelementptr inbounds i32, ptr %140, i64 %701
  %707 = load i32, ptr %706, align 1
  %708 = getelementptr inbounds i32, ptr %148, i64 %701
  %709 = load i32, ptr %708, align 1
  %710 = icmp ne i32 %709, 0
  %711 = xor i1 %46, %710
  %712 = select i1 %711, i32 %707, i32 %705
  store i32 %712, ptr %704, align 1
  %713 = add i64 %688, 2
  %714 = add i64 %689, 2
  %715 = icmp eq i64 %714, %119
  br i1 %715, label %789, label %687

716:
  br i1 %53, label %717, label %971

717:
  br i1 %133, label %748, label %718

718:
  %719 = phi i64 [ %744, %718 ], [ 0, %717 ]
  %720 = phi i64 [ %745, %718 ], [ 0, %717 ]
  %721 = getelementptr inbounds i64, ptr %146, i64 %719
  %722 = load i64, ptr %721, align 8
  %723 = getelementptr inbounds i8, ptr %139, i64 %722
  %724 = load i64, ptr %723, align 1
  %725 = getelementptr inbounds i64, ptr %140, i64 %719
  %726 = load i64, ptr %725, align 1
  %727 = getelementptr inbounds i32, ptr %148, i64 %719
  %728 = load i32, ptr %727, align 1
  %729 = icmp ne i32 %728, 0
  %730 = xor i1 %46, %729
  %731 = select i1 %730, i64 %726, i64 %724
  store i64 %731, ptr %723, align 1
  %732 = or i64 %719, 1
  %733 = getelementptr inbounds i64, ptr %146, i64 %732
  %734 = load i64, ptr %733, align 8
  %735 = getelementptr inbounds i8, ptr %139, i64 %734
  %736 = load i64, ptr %735, align 1
  %737 = getelementptr inbounds i64, ptr %140, i64 %732
  %738 = load i64, ptr %737, align 1
  %739 = getelementptr inbounds i32, ptr %148, i64 %732
  %740 = load i32, ptr %739, align 1
  %741 = icmp ne i32 %740, 0
  %742 = xor i1 %46, %741
  %743 = select i1 %742, i64 %738, i64 %736
  store i64 %743, ptr %735, align 1
  %744 = add i64 %719, 2
  %745 = add i64 %720, 2
  %746 = icmp eq i64 %745, %134
  br i1 %746, label %747, label %718

747:
  br i1 %135, label %971, label %748

748:
  %749 = phi i64 [ 0, %717 ], [ %744, %747 ]
  tail call void @llvm.assume(i1 %136)
  %750 = getelementptr inbounds i64, ptr %146, i64 %749
  %751 = load i64, ptr %750, align 8
  %752 = getelementptr inbounds i8, ptr %139, i64 %751
  %753 = load i64, ptr %752, align 1
  %754 = getelementptr inbounds i64, ptr %140, i64 %749
  %755 = load i64, ptr %754, align 1
  %756 = getelementptr inbounds i32, ptr %148, i64 %749
  %757 = load i32, ptr %756, align 1
  %758 = icmp ne i32 %757, 0
  %759 = xor i1 %46, %758
  %760 = select i1 %759, i64 %755, i64 %753
  store i64 %760, ptr %752, align 1
  br label %971

761:
  br i1 %130, label %971, label %762

762:
  %763 = phi i64 [ 0, %624 ], [ %651, %761 ]
  tail call void @llvm.assume(i1 %131)
  %764 = getelementptr inbounds i64, ptr %146, i64 %763
  %765 = load i64, ptr %764, align 8
  %766 = getelementptr inbounds i8, ptr %139, i64 %765
  %767 = load i8, ptr %766, align 1
  %768 = getelementptr inbounds i8, ptr %140, i64 %763
  %769 = load i8, ptr %768, align 1
  %770 = getelementptr inbounds i32, ptr %148, i64 %763
  %771 = load i32, ptr %770, align 1
  %772 = icmp ne i32 %771, 0
  %773 = xor i1 %46, %772
  %774 = select i1 %773, i8 %769, i8 %767
  store i8 %774, ptr %766, align 1
  br label %971

775:
  br i1 %125, label %971, label %776

776:
  %777 = phi i64 [ 0, %655 ], [ %682, %775 ]
  tail call void @llvm.assume(i1 %126)
  %778 = getelementptr inbounds i64, ptr %146, i64 %777
  %779 = load i64, ptr %778, align 8
  %780 = getelementptr inbounds i8, ptr %139, i64 %779
  %781 = load i16, ptr %780, align 1
  %782 = getelementptr inbounds i16, ptr %140, i64 %777
  %783 = load i16, ptr %782, align 1
  %784 = getelementptr inbounds i32, ptr %148, i64 %777
  %785 = load i32, ptr %784, align 1
  %786 = icmp ne i32 %785, 0
  %787 = xor i1 %46, %786
  %788 = select i1 %787, i16 %783, i16 %781
  store i16 %788, ptr %780, align 1
  br label %971

789:
  br i1 %120, label %971, label %790

790:
  %791 = phi i64 [ 0, %686 ], [ %713, %789 ]
  tail call void @llvm.assume(i1 %121)
  %792 = getelementptr inbounds i64, ptr %146, i64 %791
  %793 = load i64, ptr %792, align 8
  %794 = getelementptr inbounds i8, ptr %139, i64 %793
  %795 = load i32, ptr %794, align 1
  %796 = getelementptr inbounds i32, ptr %140, i64 %791
  %797 = load i32, ptr %796, align 1
  %798 = getelementptr inbounds i32, ptr %148, i64 %791
  %799 = load i32, ptr %798, align 1
  %800 = icmp ne i32 %799, 0
  %801 = xor i1 %46, %800
  %802 = select i1 %801, i32 %797, i32 %795
  store i32 %802, ptr %794, align 1
  br label %971

803:
  br i1 %115, label %971, label %804

804:
  %805 = phi i64 [ 0, %318 ], [ %369, %803 ]
  tail call void @llvm.assume(i1 %116)
  br label %806

806:
  %807 = phi i64 [ %814, %806 ], [ %805, %804 ]
  %808 = phi i64 [ %815, %806 ], [ 0, %804 ]
  %809 = getelementptr inbounds i64, ptr %140, i64 %807
  %810 = load i64, ptr %809, align 1
  %811 = getelementptr inbounds i64, ptr %146, i64 %807
  %812 = load i64, ptr %811, align 8
  %813 = getelementptr inbounds i8, ptr %139, i64 %812
  store i64 %810, ptr %813, align 1
  %814 = add i64 %807, 1
  %815 = add i64 %808, 1
  %816 = icmp eq i64 %815, %112
  br i1 %816, label %971, label %806

817:
  br i1 %110, label %971, label %818

818:
  %819 = phi i64 [ 0, %153 ], [ %204, %817 ]
  tail call void @llvm.assume(i1 %111)
  br label %820

820:
  %821 = phi i64 [ %828, %820 ], [ %819, %818 ]
  %822 = phi i64 [ %829, %820 ], [ 0, %818 ]
  %823 = getelementptr inbounds i8, ptr %140, i64 %821
  %824 = load i8, ptr %823, align 1
  %825 = getelementptr inbounds i64, ptr %146, i64 %821
  %826 = load i64, ptr %825, align 8
  %827 = getelementptr inbounds i8, ptr %139, i64 %826
  store i8 %824, ptr %827, align 1
  %828 = add i64 %821, 1
  %829 = add i64 %822, 1
  %830 = icmp eq i64 %829, %107
  br i1 %830, label %971, label %820

831:
  br i1 %105, label %971, label %832

832:
  %833 = phi i64 [ 0, %208 ], [ %259, %831 ]
  tail call void @llvm.assume(i1 %106)
  br label %834

834:
  %835 = phi i64 [ %842, %834 ], [ %833, %832 ]
  %836 = phi i64 [ %843, %834 ], [ 0, %832 ]
  %837 = getelementptr inbounds i16, ptr %140, i64 %835
  %838 = load i16, ptr %837, align 1
  %839 = getelementptr inbounds i64, ptr %146, i64 %835
  %840 = load i64, ptr %839, align 8
  %841 = getelementptr inbounds i8, ptr %139, i64 %840
  store i16 %838, ptr %841, align 1
  %842 = add i64 %835, 1
  %843 = add i64 %836, 1
  %844 = icmp eq i64 %843, %102
  br i1 %844, label %971, label %834

845:
  br i1 %100, label %971, label %846

846:
  %847 = phi i64 [ 0, %263 ], [ %314, %845 ]
  tail call void @llvm.assume(i1 %101)
  br label %848

848:
  %849 = phi i64 [ %856, %848 ], [ %847, %846 ]
  %850 = phi i64 [ %857, %848 ], [ 0, %846 ]
  %851 = getelementptr inbounds i32, ptr %140, i64 %849
  %852 = load i32, ptr %851, align 1
  %853 = getelementptr inbounds i64, ptr %146, i64 %849
  %854 = load i64, ptr %853, align 8
  %855 = getelementptr inbounds i8, ptr %139, i64 %854
  store i32 %852, ptr %855, align 1
  %856 = add i64 %849, 1
  %857 = add i64 %850, 1
  %858 = icmp eq i64 %857, %97
  br i1 %858, label %971, label %848

859:
  br i1 %95, label %971, label %860

860:
  %861 = phi i64 [ 0, %467 ], [ %494, %859 ]
  tail call void @llvm.assume(i1 %96)
  %862 = getelementptr inbounds i64, ptr %146, i64 %861
  %863 = load i64, ptr %862, align 8
  %864 = getelementptr inbounds i8, ptr %139, i64 %863
  %865 = load i64, ptr %864, align 1
  %866 = getelementptr inbounds i64, ptr %140, i64 %861
  %867 = load i64, ptr %866, align 1
  %868 = getelementptr inbounds i8, ptr %148, i64 %861
  %869 = load i8, ptr %868, align 1
  %870 = icmp ne i8 %869, 0
  %871 = xor i1 %46, %870
  %872 = select i1 %871, i64 %867, i64 %865
  store i64 %872, ptr %864, align 1
  br label %971

873:
  br i1 %90, label %971, label %874

874:
  %875 = phi i64 [ 0, %374 ], [ %401, %873 ]
  tail call void @llvm.assume(i1 %91)
  %876 = getelementptr inbounds i64, ptr %146, i64 %875
  %877 = load i64, ptr %876, align 8
  %878 = getelementptr inbounds i8, ptr %139, i64 %877
  %879 = load i8, ptr %878, align 1
  %880 = getelementptr inbounds i8, ptr %140, i64 %875
  %881 = load i8, ptr %880, align 1
  %882 = getelementptr inbounds i8, ptr %148, i64 %875
  %883 = load i8, ptr %882, align 1
  %884 = icmp ne i8 %883, 0
  %885 = xor i1 %46, %884
  %886 = select i1 %885, i8 %881, i8 %879
  store i8 %886, ptr %878, align 1
  br label %971

887:
  br i1 %85, label %971, label %888

888:
  %889 = phi i64 [ 0, %405 ], [ %432, %887 ]
  tail call void @llvm.assume(i1 %86)
  %890 = getelementptr inbounds i64, ptr %146, i64 %889
  %891 = load i64, ptr %890, align 8
  %892 = getelementptr inbounds i8, ptr %139, i64 %891
  %893 = load i16, ptr %892, align 1
  %894 = getelementptr inbounds i16, ptr %140, i64 %889
  %895 = load i16, ptr %894, align 1
  %896 = getelementptr inbounds i8, ptr %148, i64 %889
  %897 = load i8, ptr %896, align 1
  %898 = icmp ne i8 %897, 0
  %899 = xor i1 %46, %898
  %900 = select i1 %899, i16 %895, i16 %893
  store i16 %900, ptr %892, align 1
  br label %971

901:
  br i1 %80, label %971, label %902

902:
  %903 = phi i64 [ 0, %436 ], [ %463, %901 ]
  tail call void @llvm.assume(i1 %81)
  %904 = getelementptr inbounds i64, ptr %146, i64 %903
  %905 = load i64, ptr %904, align 8
  %906 = getelementptr inbounds i8, ptr %139, i64 %905
  %907 = load i32, ptr %906, align 1
  %908 = getelementptr inbounds i32, ptr %140, i64 %903
  %909 = load i32, ptr %908, align 1
  %910 = getelementptr inbounds i8, ptr %148, i64 %903
  %911 = load i8, ptr %910, align 1
  %912 = icmp ne i8 %911, 0
  %913 = xor i1 %46, %912
  %914 = select i1 %913, i32 %909, i32 %907
  store i32 %914, ptr %906, align 1
  br label %971

915:
  br i1 %75, label %971, label %916

916:
  %917 = phi i64 [ 0, %592 ], [ %619, %915 ]
  tail call void @llvm.assume(i1 %76)
  %918 = getelementptr inbounds i64, ptr %146, i64 %917
  %919 = load i64, ptr %918, align 8
  %920 = getelementptr inbounds i8, ptr %139, i64 %919
  %921 = load i64, ptr %920, align 1
  %922 = getelementptr inbounds i64, ptr %140, i64 %917
  %923 = load i64, ptr %922, align 1
  %924 = getelementptr inbounds i16, ptr %148, i64 %917
  %925 = load i16, ptr %924, align 1
  %926 = icmp ne i16 %925, 0
  %927 = xor i1 %46, %926
  %928 = select i1 %927, i64 %923, i64 %921
  store i64 %928, ptr %920, align 1
  br label %971

929:
  br i1 %70, label %971, label %930

930:
  %931 = phi i64 [ 0, %499 ], [ %526, %929 ]
  tail call void @llvm.assume(i1 %71)
  %932 = getelementptr inbounds i64, ptr %146, i64 %931
  %933 = load i64, ptr %932, align 8
  %934 = getelementptr inbounds i8, ptr %139, i64 %933
  %935 = load i8, ptr %934, align 1
  %936 = getelementptr inbounds i8, ptr %140, i64 %931
  %937 = load i8, ptr %936, align 1
  %938 = getelementptr inbounds i16, ptr %148, i64 %931
  %939 = load i16, ptr %938, align 1
  %940 = icmp ne i16 %939, 0
  %941 = xor i1 %46, %940
  %942 = select i1 %941, i8 %937, i8 %935
  store i8 %942, ptr %934, align 1
  br label %971

943:
  br i1 %65, label %971, label %944

944:
  %945 = phi i64 [ 0, %530 ], [ %557, %943 ]
  tail call void @llvm.assume(i1 %66)
  %946 = getelementptr inbounds i64, ptr %146, i64 %945
  %947 = load i64, ptr %946, align 8
  %948 = getelementptr inbounds i8, ptr %139, i64 %947
  %949 = load i16, ptr %948, align 1
  %950 = getelementptr inbounds i16, ptr %140, i64 %945
  %951 = load i16, ptr %950, align 1
  %952 = getelementptr inbounds i16, ptr %148, i64 %945
  %953 = load i16, ptr %952, align 1
  %954 = icmp ne i16 %953, 0
  %955 = xor i1 %46, %954
  %956 = select i1 %955, i16 %951, i16 %949
  store i16 %956, ptr %948, align 1
  br label %971

957:
  br i1 %60, label %971, label %958

958:
  %959 = phi i64 [ 0, %561 ], [ %588, %957 ]
  tail call void @llvm.assume(i1 %61)
  %960 = getelementptr inbounds i64, ptr %146, i64 %959
  %961 = load i64, ptr %960, align 8
  %962 = getelementptr inbounds i8, ptr %139, i64 %961
  %963 = load i32, ptr %962, align 1
  %964 = getelementptr inbounds i32, ptr %140, i64 %959
  %965 = load i32, ptr %964, align 1
  %966 = getelementptr inbounds i16, ptr %148, i64 %959
  %967 = load i16, ptr %966, align 1
  %968 = icmp ne i16 %967, 0
  %969 = xor i1 %46, %968
  %970 = select i1 %969, i32 %965, i32 %963
  store i32 %970, ptr %962, align 1
  br label %971

971:
  %972 = add i64 %141, 1
  %973 = load i64, ptr %54, align 8
  %974 = getelementptr inbounds i8, ptr %139, i64 %973
  %975 = load i64, ptr %55, align 8
  %976 = getelementptr inbounds i8, ptr %140, i64 %975
  %977 = load i64, ptr %47, align 8
  %978 = icmp slt i64 %972, %977
  br i1 %978, label %138, label %137
}

declare void @llvm.assume(i1)
