"""Short texts that have nothing to do with each other, written for this project: the cosines of their pairs say how an
encoder spreads what is unrelated. A changed text moves the limits of every encoder. English texts are about as long as
one segment of an English encoder, Chinese ones as half of one of a Chinese.
"""

TEXTS: dict[str, tuple[str, ...]] = {
    "en": (
        "Rinse the rice until the water runs clear, let it stand for half an hour, then cook it with the lid on and do "
        "not stir. When the steam stops, leave it for ten more minutes before you lift the lid.",
        "The council voted on Tuesday to close the old bridge to lorries. Smaller vehicles may still cross, one at a "
        "time, until the new piers have been inspected and the cracked beams replaced.",
        "A list keeps its items in the order in which they were added, while a set throws repeats away. If you only "
        "ask whether something is there, a set answers faster, since it need not look at every item.",
        "My grandmother never spoke of the winter when the lake froze. She kept a pair of skates in the attic, though, "
        "and every November she oiled the blades and put them back without a word.",
        "Bats find insects by listening to the echo of their own calls. Moths have learned to hear them coming, and "
        "some answer with clicks that confuse the hunter at the last moment.",
        "The visiting side scored twice within four minutes, and from then on sat deep in their own half. The home "
        "crowd began to leave well before the whistle, in a cold and steady rain.",
        "Interest is paid every quarter on the lowest balance of the month. Withdrawals above the free amount need "
        "three months' notice, otherwise a fee is taken from the account.",
        "Turn off the water at the main valve before you take the tap apart. The washer is usually worn on one side "
        "only; bring it to the shop so that you buy one of the right width.",
        "Copper was smelted here long before the first written records. Slag heaps on the slope above the river still "
        "turn green after rain, and children find drops of metal in them.",
        "Patients took either the tablet or a placebo for twelve weeks. Neither they nor the nurses knew which, and "
        "blood pressure was read on the same arm at the same hour of the day.",
        "He tuned the fiddle by ear, a little sharp, as they do in the hills, and played the slow air first. Nobody "
        "danced. When the reel began the old men got up before the young ones did.",
        "The train to the coast leaves from platform four at seven minutes past every hour. Bicycles travel free after "
        "nine, and a seat by the window on the left has the better view of the cliffs.",
        "Light from the far galaxy left before the Sun existed. Its colours are shifted towards red, and from the "
        "shift the astronomers work out how fast it moves away from us.",
        "Each pupil chose a word in the morning and wrote it on a card. By Friday the wall was covered, and the class "
        "sorted the cards by sound, by length and, last of all, by how much they liked them.",
        "Tenants must tell the landlord in writing of any damage within a week. Walls may be painted in light colours; "
        "other changes need consent, which is not to be refused without good reason.",
        "Sow the beans when the soil has warmed, two fingers deep and a hand apart. They need no feeding, but they do "
        "need something to climb, and picking them often keeps them bearing until the frost.",
    ),
    "zh": (
        "淘米不要搓，换两三次水就够了。泡半小时再下锅，水没过米一个指节，大火烧开后转小火，盖上盖子别翻动。蒸汽停了再焖十分钟，揭盖时米粒会立起来。",
        "市里决定从下月起封闭老桥，货车改走城东的新路，小车可以单边通行。工程队要先检查桥墩，再更换开裂的横梁，预计年底前恢复正常。",
        "列表按照加入的先后保存元素，集合则会去掉重复的。如果只想知道某个值在不在里面，用集合更快，因为它不用一个一个地去比较。",
        "外婆从来不提湖面结冰的那个冬天。可是阁楼里一直放着一双冰鞋，每年立冬她都拿出来，给冰刀上油，擦干净，再一声不响地放回去。",
        "蝙蝠靠听自己叫声的回音捕捉飞虫。有些蛾子能听见它们靠近，会在最后一刻发出咔嗒声，让对方分不清猎物到底在哪里。",
        "客队在四分钟里连进两球，此后全队退守半场。雨越下越大，主场的观众没等终场哨响就陆续离开了看台，只剩下几面湿透的旗子。",
        "利息按季度结算，以当月最低余额计算。每月可免费支取一定数额，超出部分须提前三个月通知，否则将从账户中扣除手续费。",
        "拆水龙头之前先关掉总阀。垫圈通常只磨损一面，取下来带到五金店去比一比，买同样宽的，装回去的时候不要拧得太紧。",
        "早在有文字记载以前，这里就有人炼铜。河边山坡上的矿渣堆一下雨就泛出绿色，孩子们常常在里面捡到小小的金属珠子。",
        "受试者连续十二周服用药片或安慰剂，本人和护士都不知道是哪一种。血压每天在同一时刻、同一只手臂上测量，结果由第三方统计。",
        "他凭耳朵给胡琴定弦，定得略高一点，这是山里的习惯。先拉了一支慢曲子，没有人动；等快板响起来，倒是老人们先站起来跳。",
        "去海边的火车每小时一班，在四号站台上车。九点以后自行车免费托运。建议坐左边靠窗的位子，过了隧道就能看见悬崖和灯塔。",
        "那个遥远星系发出的光，在太阳诞生以前就已经上路了。光谱向红端移动，天文学家根据移动的多少推算它离开我们的速度。",
        "早上每个学生选一个词写在卡片上，到了星期五墙上就贴满了。全班先按读音排，再按笔画排，最后按大家喜欢的程度排了一遍。",
        "房屋如有损坏，承租人应在七日内书面告知出租人。墙面可以刷成浅色，其他改动须经同意，没有正当理由不得拒绝。",
        "等土暖了再种豆角，两指深，一掌远。它不太需要施肥，但要有架子可爬。勤摘，就能一直结到下霜；老了的留作种子，晒干收好。",
    ),
}
